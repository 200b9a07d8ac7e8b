// SPDX-License-Identifier: Apache-2.0
// One task from its files to its numbers, in three steps: what is to be asked (without a model),
// the model's answers (on its ranks), and what they are worth.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/judgement.h"
#include "tasks/built_in.h"
#include "tasks/data_files.h"

namespace megalith::evaluate {

struct EvaluationOptions {
  std::optional<int64_t> shots = {};  // instead of the task's
  std::optional<int64_t> limit = {};  // documents, the first ones
  uint64_t seed = 1234;               // of drawn examples
  int64_t resamples = 100000;         // of bootstraps; 0: no errors
};

/// What belongs to a model beside its weights.
struct ModelText {
  const text::Tokenizer* tokenizer = nullptr;
  int32_t prefix = 0;              // before a text without a context
  std::vector<int32_t> ends = {};  // of a text that is written
  int64_t context = 0;             // positions
};

/// What a model is to be asked.
struct Questions {
  tasks::Task task = {};
  int64_t shots = 0;
  int64_t total = 0;  // documents of the set, before the limit
  std::vector<tasks::Document> documents = {};
  std::vector<tasks::AskedDocument> asked = {};     // by document
  std::vector<std::vector<ScoredIds>> scored = {};  // by document, unless a text is written
  std::vector<std::vector<int32_t>> contexts = {};  // to write on from, by document
};
/// Reads the task's files. UserError naming a file, or a document's place.
Questions ask(tasks::Task task, tasks::DataFolder& data, const EvaluationOptions& options,
              const ModelText& model);
/// All that ranks are to be asked alike, as text.
std::string fingerprint_of(const Questions& questions);

/// `wants_greedy`: is_greedy of every choice too, which some metrics want anyway. Collective over
/// the ranks of the model, all of which get the answers.
using OnDocuments = std::function<void(int64_t done)>;
std::vector<Response> answer(const Questions& questions, inference::InferenceEngine& engine,
                             const ModelText& model, bool wants_greedy,
                             const OnDocuments& on_documents = {});

/// One number that is reported.
struct ResultLine {
  std::string filter = {};
  tasks::MetricUse use = {};
  Summary summary = {};
  std::vector<MetricValue> values = {};  // by document
};
struct TaskResult {
  Questions questions = {};
  std::vector<Response> responses = {};
  std::vector<std::vector<std::string>> filtered = {};  // by filter and document, of texts
  std::vector<ResultLine> lines = {};
};
TaskResult judge(Questions questions, std::vector<Response> responses, int64_t resamples,
                 ThreadPool& pool);

/// A group's numbers from those of its tasks, weighted by documents.
struct GroupLine {
  tasks::Metric metric = tasks::Metric::acc;
  std::string filter = {};
  Summary summary = {};
  int64_t documents = 0;
};
std::vector<GroupLine> summarize(const tasks::TaskGroup& group,
                                 std::span<const TaskResult> results);

}  // namespace megalith::evaluate
