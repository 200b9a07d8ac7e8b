// SPDX-License-Identifier: Apache-2.0
// One recipe run with several seeds (tune.seeds), and how far apart their validations lie: what is
// learned from few examples depends on their order and on where a new head begins (Dodge et al.
// 2020), so the median of several runs is what is compared (Geiping & Goldstein 2023, of five).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/recipe.h"
#include "metrics/classification.h"

namespace megalith::tune {

/// The recipe of each run: one seed, in run.out/seed-N. Of a single seed the recipe itself.
std::vector<config::Recipe> recipes_of_seeds(const config::Recipe& recipe);

/// What a validation of a run said.
struct SeedRun {
  int64_t seed = 0;
  std::string result;  // the folder with what was learned
  /// Of several tasks, by name: the folder of each one's adapter, in `result`. Comparisons have
  /// them beside "result": "adapters": {TASK: FOLDER, ...}.
  std::vector<std::pair<std::string, std::string>> adapters = {};
  int64_t step = 0;
  double loss = 0;
  metrics::Scores scores = {};
  metrics::Scores task_losses = {};  // of several tasks, by name
};
/// The last validation that the logs of the run in `folder` hold, or that of step `step`.
/// IntegrityError when there is none, or a line is damaged.
SeedRun read_seed_run(int64_t seed, const std::filesystem::path& folder,
                      std::optional<int64_t> step);

/// All runs, at least one, with the median (of an even number the mean of the two in the middle),
/// minimum and maximum of every number that all of them have, by its name (one that finished with
/// an older version may lack some); what is no number is below all others. The best run has the
/// highest score that `by` names, or by the loss the highest first score, where there are none the
/// lowest loss; of equals that of the lower loss, then the first. UserError when a run has no score
/// of the name `by`.
///   {"seeds": [{"seed", "result", "step", "validation_loss", SCORE..., "validation_loss/TASK"...},
///              ...], "median": {...}, "minimum": {...}, "maximum": {...},
///    "best": {"seed", "by", "result"}}
nlohmann::ordered_json comparison_of(std::span<const SeedRun> runs, config::BestBy by);
/// The same as a table to read.
std::string table_of(const nlohmann::ordered_json& comparison);

}  // namespace megalith::tune
