// SPDX-License-Identifier: Apache-2.0
#include "metrics/glue.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "metrics/classification.h"
#include "metrics/statistics.h"

namespace megalith::metrics {
namespace {

using Names = std::vector<std::string>;

const std::vector<GlueTask>& tasks() {
  const Names of_inference{"entailment", "neutral", "contradiction"};
  const Names of_two{"entailment", "not_entailment"};
  static const std::vector<GlueTask> table = {
      {"cola", {"unacceptable", "acceptable"}, Report::matthews, "", "CoLA.tsv"},
      {"sst2", {"negative", "positive"}, Report::accuracy, "label", "SST-2.tsv"},
      {"mrpc", {"not_equivalent", "equivalent"}, Report::accuracy_and_f1, "Quality", "MRPC.tsv"},
      {"qqp", {"not_duplicate", "duplicate"}, Report::accuracy_and_f1, "is_duplicate", "QQP.tsv"},
      {"stsb", {}, Report::correlations, "score", "STS-B.tsv"},
      {"mnli", of_inference, Report::accuracy, "gold_label", "MNLI-m.tsv", true},
      {"mnli_mismatched", of_inference, Report::accuracy, "gold_label", "MNLI-mm.tsv", true},
      {"qnli", of_two, Report::accuracy, "label", "QNLI.tsv", true},
      {"rte", of_two, Report::accuracy, "label", "RTE.tsv", true},
      {"wnli", {"not_entailment", "entailment"}, Report::accuracy, "label", "WNLI.tsv"},
      {"ax", of_inference, Report::matthews, "gold_label", "AX.tsv", true},
      {"boolq", {"False", "True"}, Report::accuracy, "", ""},
      {"cb", {"entailment", "contradiction", "neutral"}, Report::macro_f1, "", ""},
      {"copa", {"choice1", "choice2"}, Report::accuracy, "", ""},
      {"multirc", {"False", "True"}, Report::multirc, "", ""},
      {"wic", {"False", "True"}, Report::accuracy, "", ""},
      {"wsc", {"False", "True"}, Report::accuracy, "", ""},
      {"xnli", of_inference, Report::accuracy, "", ""},
  };
  return table;
}

/// SuperGLUE's MultiRC (Khashabi et al. 2018): answers of one question right together; F1 of each
/// question's answers, their mean; F1 of all answers.
nlohmann::ordered_json multirc_metrics(const Labels& labels, std::span<const int64_t> right,
                                       std::span<const int64_t> said) {
  struct Question {
    std::vector<int64_t> right, said;
  };
  std::map<std::string, Question> questions;
  for (size_t i = 0; i < right.size(); ++i) {
    Question& question = questions[labels.groups[i]];
    question.right.push_back(right[i]);
    question.said.push_back(said[i]);
  }
  std::vector<double> exact, scores;
  for (const auto& [name, question] : questions) {
    exact.push_back(question.right == question.said ? 1 : 0);
    scores.push_back(macro_f1(question.right, question.said));
  }
  return {{"exact_match", mean(exact)}, {"f1_m", mean(scores)}, {"f1_a", f1(right, said)}};
}

std::vector<int64_t> classes_of(const Labels& labels) {
  std::vector<int64_t> classes;
  for (const double value : labels.values) classes.push_back(static_cast<int64_t>(value));
  return classes;
}

}  // namespace

const GlueTask& glue_task(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '-') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (plain == "mnli_matched" || plain == "mnlim") plain = "mnli";
  if (plain == "mnlimm") plain = "mnli_mismatched";
  for (const GlueTask& task : tasks())
    if (task.name == plain) return task;
  throw UserError("--task {}: no task of GLUE or SuperGLUE that is known; did you mean {}?", name,
                  nearest(plain, glue_tasks()));
}

std::vector<std::string> glue_tasks() {
  std::vector<std::string> names;
  for (const GlueTask& task : tasks()) names.push_back(task.name);
  names.emplace_back("squad");
  return names;
}

nlohmann::ordered_json glue_metrics(const GlueTask& task, const Labels& labels,
                                    const Labels& predictions) {
  const size_t n = labels.values.size();
  if (n != predictions.values.size())
    throw UserError("{} labels and {} predictions; there must be as many of both", n,
                    predictions.values.size());
  const std::vector<int64_t> right = classes_of(labels), said = classes_of(predictions);
  switch (task.report) {
    case Report::accuracy:
      return {{"accuracy", accuracy(right, said)}};
    case Report::accuracy_and_f1:
      return {{"accuracy", accuracy(right, said)}, {"f1", f1(right, said)}};
    case Report::macro_f1:
      return {{"accuracy", accuracy(right, said)}, {"f1", macro_f1(right, said)}};
    case Report::matthews:
      return {{"matthews_correlation", matthews(right, said)}};
    case Report::multirc:
      return multirc_metrics(labels, right, said);
    case Report::correlations:
      break;
  }
  if (n < 2) throw UserError("a correlation is of two examples or more, and there is {}", n);
  return {{"pearson", pearson(labels.values, predictions.values)},
          {"spearmanr", spearman(labels.values, predictions.values)}};
}

std::string submission(const GlueTask& task, const Labels& predictions) {
  if (task.file.empty())
    throw UserError("--output: {} is no task of GLUE, whose predictions are submitted as TSV",
                    task.name);
  std::string text = "index\tprediction\n";
  for (size_t i = 0; i < predictions.values.size(); ++i) {
    const double value = predictions.values[i];
    if (task.labels.empty()) {
      text += fmt::format("{}\t{:.3f}\n", i, std::clamp(value, 0.0, 5.0));
    } else if (task.submits_names) {
      text += fmt::format("{}\t{}\n", i, task.labels[static_cast<size_t>(value)]);
    } else {
      text += fmt::format("{}\t{}\n", i, static_cast<int64_t>(value));
    }
  }
  return text;
}

}  // namespace megalith::metrics
