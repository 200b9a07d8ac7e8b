// SPDX-License-Identifier: Apache-2.0
#include "apps/training/seeds.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/step_folders.h"
#include "train/run_checkpoints.h"
#include "tune/seed_runs.h"

namespace megalith::apps {
namespace {

namespace fs = std::filesystem;

/// What a run's validations said, and where its result is: its adapter (of several tasks one each),
/// the checkpoint of the best validation where one was kept, or the run.
tune::SeedRun outcome_of(const config::Recipe& recipe) {
  const fs::path run = recipe.run.out;
  const auto newest = checkpoint::find_newest(run / "checkpoints", false);
  const auto best = newest && recipe.checkpoint.keep_best
                        ? train::best_kept(*newest, recipe.train.best_by)
                        : std::nullopt;
  tune::SeedRun outcome =
      tune::read_seed_run(recipe.run.seed, run, best ? std::optional(best->step()) : std::nullopt);
  if (best) outcome.result = best->folder().string();
  if (recipe.tune.trains_beside()) outcome.result = (run / "adapter").string();
  for (const config::TuneTask& task : recipe.tune.tasks)
    outcome.adapters.emplace_back(task.name, (run / "adapter" / task.name).string());
  return outcome;
}

}  // namespace

int run_seeds(const config::Recipe& recipe, std::span<const Training> runs,
              const std::optional<Launch>& launch, const train::StopRequest& stop,
              const TrainingOptions& extra, bool json) {
  const fs::path file = fs::path(recipe.run.out) / "seeds.json";
  const RunsInTurn done = run_in_turn(runs, launch, stop, extra, json, [&] {
    if (extra.restart) fs::remove(file);  // of the runs that are set aside
  });
  if (done.results.empty()) return done.exit_code();  // rank 0 is another process
  if (done.signal != 0) {
    if (json) print_result(done.results.back());
    return done.exit_code();
  }
  std::vector<tune::SeedRun> seeds;
  for (const Training& run : runs) seeds.push_back(outcome_of(run.recipe));
  nlohmann::ordered_json comparison = tune::comparison_of(seeds, recipe.train.best_by);
  write_file_durable(file, comparison.dump(2) + "\n");
  if (json) {
    comparison["status"] = done.results.back().status;
    print_json(comparison);
  } else {
    fmt::print("{}", tune::table_of(comparison));
    log::info("the same as JSON: {}", file.string());
  }
  return 0;
}

}  // namespace megalith::apps
