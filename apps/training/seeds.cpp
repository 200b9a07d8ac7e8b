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

/// Where a run's result is: its adapter, the checkpoint of the lowest loss, or the run.
std::string result_of(const config::Recipe& recipe) {
  const fs::path run = recipe.run.out;
  if (fs::is_directory(run / "adapter")) return (run / "adapter").string();
  if (!recipe.checkpoint.keep_best) return run.string();
  const auto newest = checkpoint::find_newest(run / "checkpoints", false);
  const auto best = newest ? train::best_kept(*newest) : std::nullopt;
  return best ? best->folder().string() : run.string();
}

}  // namespace

int run_seeds(const config::Recipe& recipe, std::span<const Training> runs,
              const std::optional<Launch>& launch, const train::StopRequest& stop,
              const TrainingOptions& extra, bool json) {
  const fs::path file = fs::path(recipe.run.out) / "seeds.json";
  if (extra.restart) fs::remove(file);  // of the runs that are set aside
  const RunsInTurn done = run_in_turn(runs, launch, stop, extra, json);
  if (done.results.empty()) return done.exit_code();  // rank 0 is another process
  if (done.signal != 0) {
    if (json) print_result(done.results.back());
    return done.exit_code();
  }
  std::vector<tune::SeedRun> seeds;
  for (const Training& run : runs) {
    const config::Recipe& one = run.recipe;
    seeds.push_back(tune::read_seed_run(one.run.seed, one.run.out, one.checkpoint.keep_best));
    seeds.back().result = result_of(one);
  }
  nlohmann::ordered_json comparison = tune::comparison_of(seeds);
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
