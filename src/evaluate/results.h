// SPDX-License-Identifier: Apache-2.0
// Results as files, in the forms of lm-eval: results_DATE.json, and samples_TASK_DATE.jsonl with a
// line for each document and filter.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "evaluate/task_evaluation.h"

namespace megalith::evaluate {

/// How an evaluation was run.
struct RunRecord {
  std::string model = {};                  // its path
  nlohmann::ordered_json model_info = {};  // what else is said of it
  tasks::Profile profile = tasks::Profile::lm_eval;
  EvaluationOptions options = {};
  double begin = 0, end = 0;  // seconds since 1970
};

/// The whole of results_DATE.json.
nlohmann::ordered_json results_json(const RunRecord& run, std::span<const TaskResult> results,
                                    std::span<const tasks::TaskGroup> groups);
/// By which samples of different runs are known to be the same: SHA-256 of the record as Python's
/// json.dumps prints it with an indent of 2, of the context, of the right answer.
struct SampleHashes {
  std::string doc = {}, prompt = {}, target = {};
};
SampleHashes sample_hashes(const TaskResult& result, size_t document);
/// The line of one document behind one filter.
std::string sample_line(const TaskResult& result, size_t filter, size_t document);

/// Writes both into a folder of the model's name under `output`, which is made. Returns it.
std::filesystem::path write_results(const std::filesystem::path& output, const RunRecord& run,
                                    std::span<const TaskResult> results,
                                    std::span<const tasks::TaskGroup> groups);

}  // namespace megalith::evaluate
