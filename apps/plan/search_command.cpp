// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/search_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/plan/confirm_text.h"
#include "apps/plan/nemo_search.h"
#include "apps/plan/search_page.h"
#include "apps/plan/search_text.h"
#include "base/error.h"
#include "base/file.h"
#include "search/layout_search.h"

namespace megalith::apps {

namespace {

CLI::Option* add_confirm(PlanModes& modes, CLI::Option* mode, ConfirmOptions& o) {
  CLI::Option* const confirm =
      modes.option(mode, "--confirm", o.count,
                   "run the best K layouts for a few steps, fit the cluster's figures to what they "
                   "took and rank again; for another cluster, write their recipes and commands, or "
                   "read their results");
  confirm->check(whole_number(1, 100));
  modes
      .option(mode, "--confirm-folder", o.folder,
              "folder of recipes and results (default: run.out plus .confirm)")
      ->needs(confirm);
  modes
      .option(mode, "--launcher", o.launcher,
              "command that starts the ranks of a run, such as \"mpirun -n {ranks}\"; without it "
              "ranks are threads")
      ->needs(confirm);
  modes
      .option(mode, "--confirm-samples", o.samples,
              "timed samples of a run; each layout runs three times")
      ->check(whole_number(1, 1000))
      ->capture_default_str()
      ->needs(confirm);
  return confirm;
}

/// Those of NeMo's tool; `others` have no meaning beside them.
void add_nemo(PlanModes& modes, CLI::Option* mode, const std::shared_ptr<RunSize>& run,
              SearchCommand& o, std::initializer_list<CLI::Option*> others) {
  CLI::Option* const nemo = modes.flag(
      mode, "--nemo", run->nemo,
      "as NeMo's auto-configurator answers: size, shape and layout (--budget); the candidates that "
      "it would run, ranked, and those that would run out of memory (--search)");
  modes
      .option(mode, "--nemo-size", o.nemo_size,
              "billions of parameters that its tables are asked for (default: the model's)")
      ->check(CLI::Range(0.001, 1e5))
      ->needs(nemo);
  modes
      .option(mode, "--nemo-folder", o.nemo_folder,
              "write its files: candidate_configs/*.yaml, final_result/final_summary_*.csv, "
              "failed_jobs_*.csv, optimal_config_*.yaml")
      ->needs(nemo);
  for (CLI::Option* const other : others) other->excludes(nemo);
}

}  // namespace

void add_search(PlanModes& modes, const std::shared_ptr<RunSize>& run,
                std::function<int(const SearchCommand&, bool)> answer) {
  auto o = std::make_shared<SearchCommand>();
  o->run = run;
  CLI::Option* const mode = modes.add(
      "--search",
      "rank all layouts of the recipe's model and batch on a cluster, by predicted time",
      [o, answer = std::move(answer)](bool json) {
        if (o->run->cluster.empty())
          throw UserError("plan --search needs --cluster FILE (recipes/clusters)");
        return answer(*o, json);
      },
      true);
  modes.option(mode, "--cluster", run->cluster,
               "the machines: a file like recipes/clusters/h100.yaml");
  modes.option(mode, "--gpus", run->gpus, "how many GPUs there are (--search: all of the cluster)")
      ->check(whole_number(1, 100'000'000));
  modes.option(mode, "--top", o->top, "how many to show")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  CLI::Option* const confirm = add_confirm(modes, mode, o->confirm);
  CLI::Option* const fp8 =
      modes.flag(mode, "--fp8", o->fp8, "also try products in 8 bits, which change the result");
  modes.option(mode, "--csv", o->csv, "write the ranking as a table");
  modes.option(mode, "--output", run->output,
               "write a whole recipe: with the best layout (--search), or with the first that fits "
               "by its planned memory (--budget)");
  CLI::Option* const html =
      modes.option(mode, "--html", o->html, "write a page: ranking, timeline, memory, trade-offs");
  add_nemo(modes, mode, run, *o, {confirm, fp8, html});
}

namespace {

void write_best(const SearchReport& r, const std::string& path) {
  const search::Candidate& best = r.result.best.front();
  write_file_durable(
      path,
      fmt::format("# {}: {:.4g} s a step {} on {}, {} devices\n{}", best.point.text(),
                  best.expected_seconds(), best.measured ? "measured" : "predicted", r.cluster.name,
                  r.result.devices, config::to_yaml(search::recipe_at(r.recipe, best.point))));
}

int run_nemo(const SearchCommand& command, const NemoInputs& in, bool json) {
  const NemoAnswer answer = answer_nemo(command, in);
  search::SearchResult nemo = answer.result;  // of the tool's alone
  nemo.best.clear();
  for (const size_t i : answer.ranked) nemo.best.push_back(*answer.rows[i].judged);
  const SearchReport report{in.recipe, in.settings, in.cluster, nemo};
  if (!command.csv.empty()) write_file_durable(command.csv, search_csv(report));
  if (!command.nemo_folder.empty()) write_nemo_folder(answer, command.nemo_folder);
  if (!command.run->output.empty()) {
    if (nemo.best.empty())
      throw UserError(
          "--output: none of NeMo's {} candidates fits; leave out --nemo for the best of all "
          "layouts",
          answer.rows.size());
    write_best(report, command.run->output);
  }
  if (json) {
    print_json(nemo_json(answer, in));
  } else {
    fmt::print("{}", nemo_text(answer, in, static_cast<size_t>(command.top)));
  }
  return 0;
}

}  // namespace

int run_search(const SearchCommand& command, const config::Recipe& recipe,
               const engine::Settings& settings, account::BesideSteps beside, bool json) {
  const clusters::Cluster cluster = clusters::load_cluster(command.run->cluster);
  // Where devices have memory of their own, snapshots of saves lie in the host's.
  if (cluster.node.host_memory > 0) beside.snapshot = false;
  search::SearchOptions options;
  options.devices = command.run->gpus;
  options.top = static_cast<size_t>(command.top);
  options.also_fp8 = command.fp8;
  options.beside = beside;
  options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (is_this_machine(cluster))
    options.target = device::cpu_target(static_cast<int>(cluster.device.cores));
  if (command.run->nemo) return run_nemo(command, {recipe, settings, cluster, options}, json);
  options.top = std::max(options.top, static_cast<size_t>(command.confirm.count));
  search::SearchResult result = search::search_layouts(settings, cluster, options);
  std::optional<Confirmation> confirmation;
  if (command.confirm.count > 0)
    confirmation = confirm(command.confirm, {recipe, settings, cluster, options}, result);
  const clusters::Cluster fitted =
      confirmation ? search::refitted(cluster, confirmation->refit) : cluster;
  const SearchReport report{recipe, settings, fitted, result};
  if (!command.csv.empty()) write_file_durable(command.csv, search_csv(report));
  if (!command.run->output.empty()) write_best(report, command.run->output);
  if (!command.html.empty()) write_search_page(report, beside, command.html);
  if (json) {
    auto answer = search_json(report);
    if (confirmation) add_confirmation(*confirmation, answer);
    print_json(answer);
  } else {
    fmt::print("{}", search_text(report));
    if (confirmation) fmt::print("{}", confirm_text(*confirmation, result));
  }
  return 0;
}

}  // namespace megalith::apps
