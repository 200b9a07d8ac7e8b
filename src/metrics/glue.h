// SPDX-License-Identifier: Apache-2.0
// GLUE (Wang et al. 2018) and SuperGLUE's tasks of classes (Wang et al. 2019): what their labels
// are called, which numbers are reported, and the files that people keep labels and predictions in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::metrics {

/// The set of numbers that a task reports.
enum class Report : uint8_t {
  accuracy,
  accuracy_and_f1,
  macro_f1,
  matthews,
  correlations,
  multirc
};

struct GlueTask {
  std::string name = {};
  std::vector<std::string> labels = {};  // by number; none: a number is predicted
  Report report = Report::accuracy;
  std::string column = {};  // of the label in the benchmark's own TSV, by its heading
  std::string file = {};    // that is submitted; empty: SuperGLUE's, which are no TSV
  bool submits_names = false;
};
/// UserError naming the nearest known one. Names as Hugging Face has them, "sst-2" and "STS-B" too.
const GlueTask& glue_task(std::string_view name);
/// Those, and "squad", whose answers are texts (answers.h).
std::vector<std::string> glue_tasks();

/// Labels or predictions of a file, in order.
struct Labels {
  std::vector<double> values = {};       // classes' numbers, or numbers
  std::vector<std::string> groups = {};  // of MultiRC: the question that an answer is to
};
/// A value on each line; or JSON with "prediction", "label" or "score" on each, as `evaluate
/// classify` and `datasets` write; or the benchmark's own TSV of labels (no quoting); or the TSV
/// that is submitted. UserError with FILE:LINE for what is no label of the task.
Labels read_labels(const std::filesystem::path& file, const GlueTask& task);

/// The numbers by name. UserError unless there are as many of both, and some.
nlohmann::ordered_json glue_metrics(const GlueTask& task, const Labels& labels,
                                    const Labels& predictions);

/// The TSV to submit: "index" and "prediction". UserError for tasks without one.
std::string submission(const GlueTask& task, const Labels& predictions);

}  // namespace megalith::metrics
