// SPDX-License-Identifier: Apache-2.0
#include "evaluate/task_evaluation.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "evaluate/answer_writer.h"
#include "metrics/statistics.h"

namespace megalith::evaluate {
namespace {

/// The split that examples are taken from: the one named, else training, validation, the one asked.
std::vector<tasks::Document> pool_of(const tasks::Task& task, tasks::DataFolder& data,
                                     int64_t shots) {
  if (shots == 0) return {};
  if (!task.given_shots.empty()) return task.given_shots;
  const tasks::Splits& splits = task.splits;
  const std::string& split = splits.fewshot      ? *splits.fewshot
                             : splits.training   ? *splits.training
                             : splits.validation ? *splits.validation
                                                 : *splits.test;
  return data.documents(task, split);
}

std::vector<tasks::Document> asked_documents(const tasks::Task& task, tasks::DataFolder& data,
                                             std::optional<int64_t> limit, int64_t& total) {
  std::vector<tasks::Document> documents = data.documents(task, task.splits.evaluated());
  total = std::ssize(documents);
  if (task.shuffled) {
    std::vector<tasks::Document> mixed;
    for (const uint32_t i : metrics::PythonRandom(42).shuffled(static_cast<uint32_t>(total)))
      mixed.push_back(std::move(documents[i]));
    documents = std::move(mixed);
  }
  if (limit && *limit < total) documents.resize(static_cast<size_t>(*limit));
  return documents;
}

}  // namespace

Questions ask(tasks::Task task, tasks::DataFolder& data, const EvaluationOptions& options,
              const ModelText& model) {
  Questions questions{.task = std::move(task)};
  const tasks::Task& of = questions.task;
  questions.shots = options.shots.value_or(of.shots);
  questions.documents = asked_documents(of, data, options.limit, questions.total);
  tasks::Prompts prompts(of, pool_of(of, data, questions.shots), questions.shots, options.seed);
  PairEncoder encoder(*model.tokenizer, model.prefix, model.context);
  for (const tasks::Document& document : questions.documents) {
    questions.asked.push_back(prompts.ask(document));
    const tasks::AskedDocument& asked = questions.asked.back();
    try {
      if (of.type == tasks::OutputType::generate_until) {
        questions.contexts.push_back(
            encoder.context(asked.asked[0].context, of.generation.max_tokens));
        continue;
      }
      std::vector<ScoredIds>& scored = questions.scored.emplace_back();
      if (of.type == tasks::OutputType::loglikelihood_rolling) {
        scored = encoder.rolling(asked.asked[0].continuation);
      } else {
        for (const tasks::Asked& one : asked.asked) scored.push_back(encoder.pair(one));
      }
    } catch (const UserError& error) {
      throw UserError("{}: {}: {}", document.where, of.name, error.what());
    }
  }
  const Judge judge(of, questions.asked.front().question);
  for (size_t d = 0; d < questions.documents.size(); ++d)
    judge.check(questions.documents[d], questions.asked[d].question);
  return questions;
}

std::string fingerprint_of(const Questions& questions) {
  Sha256 hash;
  const auto add = [&](const std::vector<int32_t>& ids, int64_t scored) {
    const int64_t sizes[] = {std::ssize(ids), scored};
    hash.update(sizes, sizeof(sizes));
    hash.update(ids.data(), ids.size() * sizeof(int32_t));
  };
  for (const auto& document : questions.scored)
    for (const ScoredIds& one : document) add(one.ids, one.scored);
  for (const auto& ids : questions.contexts) add(ids, 0);
  return questions.task.name + " " + hash.finish();
}

namespace {

/// Metrics that ask whether a continuation is the most likely one.
bool asks_greedy(const tasks::Task& task) {
  return std::ranges::any_of(task.metrics, [&](const tasks::MetricUse& use) {
    return task.type == tasks::OutputType::loglikelihood ? use.metric == tasks::Metric::acc
                                                         : use.metric == tasks::Metric::exact_match;
  });
}

}  // namespace

std::vector<Response> answer(const Questions& questions, inference::InferenceEngine& engine,
                             const ModelText& model, bool wants_greedy,
                             const OnDocuments& on_documents) {
  const tasks::Task& task = questions.task;
  std::vector<Response> responses(questions.documents.size());
  if (task.type == tasks::OutputType::generate_until) {
    std::vector<std::string> texts =
        write_texts(engine, model, task.generation, questions.contexts, on_documents);
    for (size_t d = 0; d < texts.size(); ++d) responses[d].text = std::move(texts[d]);
    return responses;
  }
  int64_t longest = 1;
  for (const auto& document : questions.scored)
    for (const ScoredIds& one : document) longest = std::max(longest, std::ssize(one.ids));
  ContinuationScorer scorer(engine, longest, wants_greedy || asks_greedy(task));
  auto scores = scorer.score(questions.scored, on_documents);
  for (size_t d = 0; d < scores.size(); ++d) {
    responses[d].scores = std::move(scores[d]);
    for (const ScoredIds& one : questions.scored[d]) responses[d].tokens.push_back(one.tokens);
  }
  return responses;
}

TaskResult judge(Questions questions, std::vector<Response> responses, int64_t resamples,
                 ThreadPool& pool) {
  TaskResult result{.questions = std::move(questions), .responses = std::move(responses)};
  const Questions& of = result.questions;
  const tasks::Task& task = of.task;
  const Judge judge(task, of.asked.front().question);
  for (size_t f = 0; f < task.filters.size(); ++f) {
    std::vector<std::vector<MetricValue>> values(task.metrics.size());
    std::vector<std::string>& filtered = result.filtered.emplace_back();
    for (size_t d = 0; d < of.documents.size(); ++d) {
      Judged judged = judge.judge(of.documents[d], of.asked[d], result.responses[d], f);
      for (size_t m = 0; m < values.size(); ++m) values[m].push_back(judged.values[m]);
      filtered.push_back(std::move(judged.filtered));
    }
    for (size_t m = 0; m < values.size(); ++m) {
      const tasks::MetricUse& use = task.metrics[m];
      const Summary summary = summarize(use.aggregation, values[m], resamples, pool);
      result.lines.push_back({task.filters[f].name, use, summary, std::move(values[m])});
    }
  }
  return result;
}

std::vector<GroupLine> summarize(const tasks::TaskGroup& group,
                                 std::span<const TaskResult> results) {
  std::vector<GroupLine> lines;
  for (const tasks::Metric metric : group.metrics) {
    std::vector<double> errors;
    std::vector<int64_t> sizes;
    double sum = 0, total = 0;
    std::string filter;
    for (const TaskResult& result : results) {
      if (std::ranges::find(group.tasks, result.questions.task.name) == group.tasks.end()) continue;
      for (const ResultLine& line : result.lines) {
        if (line.use.metric != metric) continue;
        const auto size = std::ssize(line.values);
        sum += line.summary.value * static_cast<double>(size);
        total += static_cast<double>(size);
        if (line.summary.error) errors.push_back(*line.summary.error);
        sizes.push_back(size);
        filter = line.filter;
      }
    }
    if (sizes.empty()) continue;
    GroupLine line{
        metric, filter, {.value = sum / total, .error = {}}, static_cast<int64_t>(total)};
    if (errors.size() == sizes.size()) line.summary.error = metrics::pooled_error(errors, sizes);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace megalith::evaluate
