// SPDX-License-Identifier: Apache-2.0
#include "apps/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "account/plan.h"
#include "account/traced_step.h"
#include "apps/layout_table.h"
#include "apps/machine.h"
#include "apps/memory_admission.h"
#include "apps/sample_writer.h"
#include "apps/step_profiler.h"
#include "apps/version.h"
#include "base/log.h"
#include "comm/backends.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/reduction/read_bandwidth.h"
#include "report/page.h"
#include "train/finished.h"
#include "train/run_folder.h"
#include "train/run_lock.h"
#include "train/stop_request.h"

namespace megalith::apps {
namespace {

/// FLOPs a step of all ranks cannot avoid: those of a run of one rank that keeps everything.
double necessary_flops(engine::Settings settings, const device::Target& target) {
  settings.recompute = {};
  settings.layout = {};
  settings.zero = 0;
  settings.pipeline_schedule = parallel::ScheduleKind::one_forward_one_backward;
  return account::trace(target,
                        [&](device::Device& device) {
                          const auto world = comm::make_self_communicator(device);
                          account::traced_step(settings, device, *world, {});
                        })
      .work.flops;
}

void print_start(const config::Recipe& recipe, const engine::Settings& s,
                 const account::MemoryByClass& m, const train::RunFacts& facts) {
  using account::bytes_text;
  const std::string text = fmt::format(
      "model      {} parameters, {} layers x {}, {} heads, context {}, vocabulary {}\n"
      "memory     {}: weights {}, gradients {}, optimizer {}, activations {}, workspace {}, "
      "snapshot {} (planned)\n"
      "step       {} samples of {} tokens, micro-batch {}, {:.1f} GFLOP; ceiling {:.0f} "
      "GFLOP/s on {} threads\n"
      "run        {}\n",
      s.model.num_parameters(), s.model.num_layers(), s.model.hidden,
      s.model.layers.front().attention.heads, s.model.context, s.model.vocab, bytes_text(m.total),
      bytes_text(m.of(device::MemoryClass::weights)),
      bytes_text(m.of(device::MemoryClass::gradients)),
      bytes_text(m.of(device::MemoryClass::optimizer)),
      bytes_text(m.of(device::MemoryClass::activations)),
      bytes_text(m.of(device::MemoryClass::workspace)),
      bytes_text(m.of(device::MemoryClass::snapshot)), s.batch.full, s.sequence_length(),
      s.micro_batch, facts.step_flops / 1e9, facts.gemm_ceiling_flops / 1e9,
      facts.machine["threads"].get<int>(), recipe.run.out);
  std::fputs(text.c_str(), stderr);  // a full log must not keep a run from starting
}

nlohmann::ordered_json result_json(const train::RunResult& result) {
  auto json = result.last.step > 0 ? nlohmann::ordered_json::parse(result.last.to_json_line())
                                   : nlohmann::ordered_json::object();
  json["status"] = result.status;
  return json;
}

/// Of the operands of its matrix products: two of bf16, which codes of 8 bits are too, or they are
/// multiplied in f32.
DType product_type(const engine::Settings& settings) {
  const bool is_bf16 =
      settings.fp8 || (settings.weights == DType::bf16 && settings.activations == DType::bf16);
  return is_bf16 ? DType::bf16 : DType::f32;
}

/// Of the kernels that the run uses (its numerics and storage), all ranks at once: the rates of
/// this rank. Memory is measured when a profile needs it. Collective.
account::Roofline roofline_of(const RankPlace& place, const engine::Settings& settings,
                              bool with_memory) {
  const auto scratch = device::make_device(place.device.target());
  kernels::Exec exec(*scratch, settings.numerics);
  place.world.barrier("ceiling");
  return {kernels::gemm_ceiling(exec, product_type(settings), 0.3),
          with_memory ? kernels::read_bandwidth(exec, int64_t{256} << 20, 0.1) : 0};
}

/// Says what products of bf16 would gain where the CPU has an instruction for them and a recipe has
/// f32 operands. All ranks at once, as `f32_flops` was measured. Collective: ranks may be on unlike
/// machines, so all of them take part.
void advise_bf16(const RankPlace& place, const engine::Settings& settings, double f32_flops) {
  if (product_type(settings) == DType::bf16) return;
  place.world.barrier("advice");
  const device::Target& target = place.device.target();
  if (target.isa != device::Isa::avx512_bf16) return;
  const auto scratch = device::make_device(target);
  kernels::Exec exec(*scratch, settings.numerics);
  const double bf16_flops = kernels::gemm_ceiling(exec, DType::bf16, 0.1);
  if (place.world.rank() != 0) return;
  log::info(
      "precision.parameters and precision.compute bf16 would multiply matrices at {:.0f} GFLOP/s a "
      "rank here, not {:.0f}; the optimizer keeps its weights in f32",
      1e-9 * bf16_flops, 1e-9 * f32_flops);
}

/// The run's page; without it the run's folder. The run is over and saved: what the page fails at
/// changes nothing about how it ended.
std::string report_of(const std::filesystem::path& folder) {
  try {
    return report::write_report(folder).string();
  } catch (const std::exception& error) {
    log::warning("no report: {}; megalith report {} makes it", error.what(), folder.string());
    return folder.string();
  }
}

double sum_over(comm::Communicator& world, double mine) {
  double sum = 0;
  for (const double x : world.exchange_values(std::span<const double>(&mine, 1), "start")) sum += x;
  return sum;
}

/// A command's run as each rank goes through it. Rank 0, which has the plan, profiles.
train::RunResult run_rank(const RankPlace& place, train::RunInputs inputs,
                          const std::optional<MemoryPlan>& plan, const TrainingOptions& extra) {
  const config::Recipe& recipe = inputs.recipe;
  const engine::Settings& settings = inputs.settings;
  const device::Target& target = place.device.target();
  const bool is_rank_zero = place.world.rank() == 0;
  const account::Roofline roofline = roofline_of(place, settings, extra.profile_steps > 0);
  train::RunFacts facts = inputs.facts;
  facts.version = kVersion;
  facts.allow = extra.allow;
  facts.gemm_ceiling_flops = sum_over(place.world, roofline.flops);
  const double threads = sum_over(place.world, target.num_threads);
  if (is_rank_zero) {
    facts.machine = machine_json(target);
    facts.machine["threads"] = static_cast<int>(threads);  // of all ranks
    facts.step_flops = necessary_flops(settings, target);
    facts.planned_memory = account::to_json(plan->front());
    if (inputs.show_progress) {
      print_start(recipe, settings, plan->front(), facts);
      print_layout(settings, *plan, target.num_threads);
    }
  }
  advise_bf16(place, settings, roofline.flops);
  inputs.facts = facts;
  train::Hooks& hooks = inputs.hooks;
  if (recipe.train.sample_every > 0) {
    hooks.samples = [&](engine::Engine& engine, int64_t step) {
      return write_samples(engine, step, recipe, *inputs.tokenizer);
    };
  }
  StepProfiler profiler(extra.profile_steps, std::filesystem::path(recipe.run.out) / "profile.json",
                        roofline);
  if (extra.profile_steps > 0 && is_rank_zero) profiler.attach(hooks);
  const train::RunResult result = train::run_training(inputs, place.world, place.device);
  if (is_rank_zero) profiler.finish();
  return result;
}

}  // namespace

void TrainingOptions::declare(CLI::App& c) {
  c.add_option("--profile", profile_steps,
               "steps to profile (3 unless given), after the first: a table, and profile.json (a "
               "Chrome trace) in the run folder")
      ->expected(0, 1)
      ->default_str("3")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  c.add_option("--ranks", ranks,
               "ranks as threads of this process; those of parallel.* unless given, and data ranks "
               "when parallel.* names none")
      ->check(CLI::Range(1, 4096));
  c.add_option("--allow", allow,
               "recipe key that a resume may change: --allow optimizer.lr (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.add_flag("--restart", restart,
             "begin anew; what an earlier run left in the run folder is kept there in old-1, old-2 "
             "and so on");
}

void add_training_command(CLI::App& app, Invocation& invocation, const char* name,
                          const char* description, const char* examples, RunCommand run) {
  CLI::App& c = add_command(app, invocation, name, description, examples);
  auto options = std::make_shared<RecipeOptions>();
  auto extra = std::make_shared<TrainingOptions>();
  options->declare(c);
  extra->declare(c);
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return run(*options, *extra, invocation.json); };
  });
}

namespace {

/// What the runs of a command have in common.
struct Command {
  const train::StopRequest& stop;
  const TrainingOptions& extra;
  bool json;
};

/// One run as each rank goes through it, whose folder rank 0 holds.
train::RunResult run_in_folder(const RankPlace& place, const Training& training,
                               const engine::Settings& settings, const Command& command) {
  const config::Recipe& recipe = training.recipe;
  const text::Tokenizer* const tokenizer = training.tokenizer;
  const auto samples = training.training_samples(settings);
  if (const auto last = train::finished_before(place.world, recipe, settings, *samples, tokenizer,
                                               training.base, command.extra.allow))
    return {*last, "already finished", 0};
  // Opened before anything is measured: what cannot be read is refused first.
  const auto validation = training.validation_samples(settings);
  train::RunInputs inputs{.recipe = recipe,
                          .settings = settings,
                          .tokenizer = tokenizer,
                          .training = *samples,
                          .validation = validation.get(),
                          .base = training.base,
                          .stop = place.handles_signals ? &command.stop : nullptr,
                          .show_progress = !command.json};
  const std::shared_ptr<const void> initial = training.begin(place, inputs);
  const auto plan = require_memory(place, recipe, tokenizer, training.settings);
  return run_rank(place, inputs, plan, command.extra);
}

/// The folders of all runs. The first one made folders above those of the others, so it goes last.
struct HeldFolders {
  std::vector<std::unique_ptr<train::RunLock>> locks;
  ~HeldFolders() {
    while (!locks.empty()) locks.pop_back();
  }
  /// Makes them anew where that is asked for, once all are held.
  void hold(std::span<const Training> runs, bool restart) {
    for (const Training& run : runs)
      locks.push_back(std::make_unique<train::RunLock>(run.recipe.run.out));
    for (const Training& run : runs)
      if (restart) train::set_aside(run.recipe.run.out);
  }
};

/// Behind a run, in the process of rank 0.
void end_run(const Training& run, const train::RunResult& result, bool json) {
  if (run.ended) run.ended();
  const std::string page = report_of(run.recipe.run.out);
  if (!json) std::fputs(fmt::format("{}: {}\n", result.status, page).c_str(), stderr);
}

}  // namespace

RunsInTurn run_in_turn(std::span<const Training> runs, const std::optional<Launch>& launch,
                       const train::StopRequest& stop, const TrainingOptions& extra, bool json,
                       const std::function<void()>& held) {
  std::vector<engine::Settings> settings;
  for (const Training& run : runs) settings.push_back(run.settings(run.recipe));
  HeldFolders folders;
  RunsInTurn done;
  on_ranks(rank_options(runs.front().recipe), launch, [&](const RankPlace& place) {
    const bool is_rank_zero = place.world.rank() == 0;
    // One rank holds the folders for all; when it is refused, the others are told.
    if (is_rank_zero) {
      folders.hold(runs, extra.restart);
      if (held) held();
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      if (is_rank_zero && runs.size() > 1)
        log::info("run {} of {}: {}", i + 1, runs.size(), runs[i].recipe.run.out);
      const train::RunResult mine = run_in_folder(place, runs[i], settings[i], {stop, extra, json});
      if (place.handles_signals) done.signal = mine.signal;
      if (is_rank_zero) {
        done.results.push_back(mine);
        end_run(runs[i], mine, json);
      }
      if (mine.signal != 0) return;
    }
  });
  return done;
}

void print_result(const train::RunResult& result) { print_json(result_json(result)); }

int run_training(const Training& training, const std::optional<Launch>& launch,
                 const train::StopRequest& stop, const TrainingOptions& extra, bool json) {
  const RunsInTurn done = run_in_turn(std::span(&training, 1), launch, stop, extra, json);
  if (json && !done.results.empty()) print_result(done.results.front());
  return done.exit_code();
}

}  // namespace megalith::apps
