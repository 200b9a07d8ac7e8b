// SPDX-License-Identifier: Apache-2.0
// megalith plan --goodput: how much of a long run is work that lasts.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/plan/plan_modes.h"
#include "base/error.h"
#include "goodput/expected_run.h"
#include "goodput/simulated_run.h"
#include "report/quantity.h"

namespace megalith::apps {
namespace {

struct GoodputOptions {
  std::shared_ptr<RunSize> run;
  double mtbf_hours = 50000;
  double save_seconds = 10, write_seconds = 0, restart_seconds = 300;
  double interval_minutes = 0;  // 0: the best
  int64_t runs = 1000;
  int64_t seed = 1;
};

/// An interval and what it comes to.
struct Choice {
  std::string_view name;
  goodput::InterruptedRun run;
  goodput::ExpectedShares shares;
};

goodput::InterruptedRun asked_run(const GoodputOptions& o) {
  if (o.run->gpus == 0) throw UserError("--goodput needs --gpus: how many devices there are");
  if (o.run->days == 0) throw UserError("--goodput needs --days: of work, without failures");
  if (!(o.mtbf_hours > 0 && o.mtbf_hours <= 1e9))
    throw UserError("--mtbf-hours is {}; give hours above 0, at most 1e9", o.mtbf_hours);
  goodput::InterruptedRun run{
      .work = o.run->days * 86400,
      .mean_to_stop = o.mtbf_hours * 3600 / static_cast<double>(o.run->gpus),
      .save = o.save_seconds,
      .write = o.write_seconds,
      .restart = o.restart_seconds};
  run.interval = o.interval_minutes * 60;
  if (o.interval_minutes == 0) {
    if (o.save_seconds == 0 && o.write_seconds == 0)
      throw UserError(
          "saves that take nothing have no best interval; give --interval-minutes, or "
          "--save-seconds or --write-seconds above 0");
    // What is wrong with the other numbers is said before one is made of them.
    goodput::InterruptedRun stretch = run;
    stretch.work = stretch.interval = std::min(run.work, run.mean_to_stop);
    goodput::check(stretch);
    run.interval = goodput::best_interval(run);
  }
  goodput::check(run);
  return run;
}

Choice choice_of(std::string_view name, goodput::InterruptedRun run, double interval) {
  run.interval = std::min(run.work, std::max(interval, run.write));
  return {name, run, goodput::expected_shares(run)};
}

std::vector<Choice> choices_of(const goodput::InterruptedRun& run) {
  std::vector<Choice> all = {{"asked for", run, goodput::expected_shares(run)},
                             choice_of("best", run, goodput::best_interval(run)),
                             choice_of("half of it", run, goodput::best_interval(run) / 2),
                             choice_of("twice", run, goodput::best_interval(run) * 2)};
  if (run.save > 0) {
    all.push_back(choice_of("Young 1974", run, goodput::young_interval(run)));
    all.push_back(choice_of("Daly 2006", run, goodput::daly_interval(run)));
  }
  return all;
}

nlohmann::ordered_json share_json(double total, const goodput::ExpectedShares& shares) {
  return {{"work", shares.work / total},
          {"saves", shares.saves / total},
          {"restarts", shares.restarts / total},
          {"lost", shares.lost / total}};
}

void print_goodput_json(const GoodputOptions& o, const std::vector<Choice>& choices,
                        const goodput::Simulation& simulated) {
  constexpr double kDay = 86400;
  const Choice& asked = choices.front();
  nlohmann::ordered_json json;
  json["goodput"] = asked.shares.goodput();
  json["days"] = asked.shares.total / kDay;
  json["interval_seconds"] = asked.run.stretch();
  json["failures"] = asked.shares.failures;
  json["seconds_between_failures"] = asked.run.mean_to_stop;
  json["shares"] = share_json(asked.shares.total, asked.shares);
  for (const Choice& choice : choices)
    json["intervals"].push_back({{"name", choice.name},
                                 {"interval_seconds", choice.run.stretch()},
                                 {"goodput", choice.shares.goodput()},
                                 {"days", choice.shares.total / kDay}});
  json["simulated"] = {{"runs", o.runs},
                       {"seed", o.seed},
                       {"goodput", asked.run.work / simulated.total.value},
                       {"days", simulated.total.value / kDay},
                       {"days_standard_error", simulated.total.standard_error / kDay},
                       {"days_p05", simulated.quantile(0.05) / kDay},
                       {"days_p50", simulated.quantile(0.5) / kDay},
                       {"days_p95", simulated.quantile(0.95) / kDay},
                       {"failures", simulated.failures.value}};
  print_json(json);
}

void print_goodput(const GoodputOptions& o, const std::vector<Choice>& choices,
                   const goodput::Simulation& simulated) {
  constexpr double kDay = 86400;
  const Choice& asked = choices.front();
  const goodput::ExpectedShares& shares = asked.shares;
  fmt::print(
      "{} devices, each failing once in {:.6g} hours: one failure in {} for all\n"
      "{:.4g} days of work take {:.2f}: goodput {:.1f} %, {:.1f} failures\n\n",
      o.run->gpus, o.mtbf_hours, report::human_seconds(asked.run.mean_to_stop), o.run->days,
      shares.total / kDay, 100 * shares.goodput(), shares.failures);
  fmt::print("{:<28} {:>9} {:>7}\n", "where the time goes", "days", "%");
  for (const auto& [name, seconds] :
       {std::pair{"work", shares.work}, std::pair{"saves", shares.saves},
        std::pair{"restarts", shares.restarts}, std::pair{"lost since the last save", shares.lost}})
    fmt::print("{:<28} {:>9.3f} {:>7.2f}\n", name, seconds / kDay, 100 * seconds / shares.total);
  fmt::print("\n{:<28} {:>14} {:>9} {:>9}\n", "time between saves", "", "days", "goodput %");
  for (const Choice& choice : choices)
    fmt::print("{:<28} {:>14} {:>9.3f} {:>9.2f}\n", choice.name,
               report::human_seconds(choice.run.stretch()), choice.shares.total / kDay,
               100 * choice.shares.goodput());
  fmt::print(
      "\n{} simulated runs (seed {}): {:.3f} +- {:.3f} days on average; 5 % end within {:.3f}, "
      "half "
      "within {:.3f}, 95 % within {:.3f}\n",
      o.runs, o.seed, simulated.total.value / kDay, simulated.total.standard_error / kDay,
      simulated.quantile(0.05) / kDay, simulated.quantile(0.5) / kDay,
      simulated.quantile(0.95) / kDay);
}

int run_goodput(const GoodputOptions& o, bool json) {
  const goodput::InterruptedRun run = asked_run(o);
  const std::vector<Choice> choices = choices_of(run);
  const double events = (static_cast<double>(run.saves()) + choices.front().shares.failures) *
                        static_cast<double>(o.runs);
  if (!(events < 1e9))
    throw UserError("{} runs are {:.2g} saves and failures to walk through; give fewer --runs",
                    o.runs, events);
  const goodput::Simulation simulated =
      goodput::simulate_runs(run, static_cast<uint64_t>(o.seed), o.runs);
  if (json) {
    print_goodput_json(o, choices, simulated);
  } else {
    print_goodput(o, choices, simulated);
  }
  return 0;
}

}  // namespace

void add_goodput(PlanModes& modes, const std::shared_ptr<RunSize>& run) {
  auto o = std::make_shared<GoodputOptions>();
  o->run = run;
  CLI::Option* const mode = modes.add(
      "--goodput",
      "instead of a recipe: how much of --days of work on --gpus failures and saves leave over",
      [o](bool json) { return run_goodput(*o, json); });
  modes.option(mode, "--gpus", run->gpus, "");
  modes.option(mode, "--days", run->days, "");
  const auto seconds = CLI::Range(0.0, 1e9);
  modes
      .option(mode, "--mtbf-hours", o->mtbf_hours,
              "mean hours between failures of one device (Llama 3: 50,700)")
      ->capture_default_str();
  modes.option(mode, "--save-seconds", o->save_seconds, "what a save takes from the steps")
      ->check(seconds)
      ->capture_default_str();
  modes
      .option(mode, "--write-seconds", o->write_seconds,
              "how long behind that it is written in the background, until it is durable")
      ->check(seconds)
      ->capture_default_str();
  modes
      .option(mode, "--restart-seconds", o->restart_seconds,
              "from a failure to the next step: noticing, starting, loading")
      ->check(seconds)
      ->capture_default_str();
  modes
      .option(mode, "--interval-minutes", o->interval_minutes,
              "minutes of work between saves; the best unless given")
      ->check(CLI::Range(1e-6, 1e9));
  modes.option(mode, "--runs", o->runs, "runs to simulate")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  modes.option(mode, "--seed", o->seed, "of their failures")
      ->check(whole_number(0))
      ->capture_default_str();
}

}  // namespace megalith::apps
