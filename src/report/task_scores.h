// SPDX-License-Identifier: Apache-2.0
// Scores of a run's checkpoints on tasks, as `evaluate tasks --output RUN/tasks` leaves them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace megalith::report {

struct TaskScore {
  std::string checkpoint = {};  // "step-00001000", or the name of what was scored
  std::string task = {};
  std::string metric = {};  // with its filter, if it has one: "exact_match (strict-match)"
  double value = 0;
  std::optional<double> error = {};
};

/// Of all results_*.json in the folders of RUN/tasks, by checkpoint; of several of one checkpoint
/// and metric the newest. Nothing if there is no such folder. IntegrityError for a file that is no
/// such results.
std::vector<TaskScore> read_task_scores(const std::filesystem::path& run_folder);

}  // namespace megalith::report
