// SPDX-License-Identifier: Apache-2.0
// The files of a run folder that the report page needs, read and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/metrics.h"
#include "report/samples.h"
#include "report/task_scores.h"

namespace megalith::report {

/// The largest run.json or recipe.yaml accepted; genuine ones have some kilobytes.
inline constexpr int64_t kMostRunFileBytes = 16 << 20;

struct RunRecord {
  std::filesystem::path run_path;  // of run.json, for messages
  nlohmann::ordered_json run;      // run.json, an object
  std::string recipe;              // recipe.yaml as it stands
  std::string model;               // one line about the recipe's model; may be empty
  std::vector<StepMetrics> steps;
  SampleTexts samples;
  std::vector<TaskScore> scores;

  /// The value of run.json under a JSON pointer such as "/machine/cpu"; nothing if it is absent or
  /// null; IntegrityError if it has another type.
  std::optional<std::string> text(std::string_view pointer) const;
  std::optional<double> number(std::string_view pointer) const;
  std::optional<int64_t> integer(std::string_view pointer) const;
};

/// Reads recipe.yaml, run.json and metrics.jsonl, samples.jsonl if there is one, and the results in
/// the folder tasks. UserError if
/// the folder or one of the first three is missing; IntegrityError if one cannot be understood.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace megalith::report
