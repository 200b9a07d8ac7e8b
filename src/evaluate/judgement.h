// SPDX-License-Identifier: Apache-2.0
// From a model's answers to the values of a document's metrics, and from those of all documents to
// the numbers that are reported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "evaluate/continuation_scorer.h"
#include "tasks/filters.h"
#include "tasks/prompts.h"

namespace megalith::evaluate {

/// What a model made of one document: a score for each thing asked, or the text that it wrote.
struct Response {
  std::vector<ScoredAnswer> scores = {};
  std::vector<int64_t> tokens = {};  // of each continuation
  std::string text = {};
};

/// The value of one metric of one document: a number; a sum with its weight; the right class and
/// the one chosen.
struct MetricValue {
  double value = 0, second = 0;
};

struct Judged {
  std::vector<MetricValue> values = {};  // by metric of the task
  std::string filtered = {};             // of a text
};

class Judge {
 public:
  /// `first`: says whether documents have several right answers. The task must outlive it.
  Judge(const tasks::Task& task, const tasks::Question& first);

  /// Before a model is asked: UserError with the document's place unless its right answer is one.
  void check(const tasks::Document& document, const tasks::Question& question) const;
  /// Behind filter number `filter` (of texts; else 0). UserError with the document's place for a
  /// right answer that is none.
  Judged judge(const tasks::Document& document, const tasks::AskedDocument& asked,
               const Response& response, size_t filter) const;

 private:
  Judged judge_choices(const tasks::Document& document, const tasks::AskedDocument& asked,
                       const Response& response) const;
  Judged judge_text(const tasks::Document& document, const tasks::AskedDocument& asked,
                    const Response& response, size_t filter) const;
  /// Numbers from 0. A negative one is none: -1 is how `datasets` writes that there is no label.
  std::vector<int64_t> right_choices(const tasks::Document& document,
                                     const tasks::Question& question) const;
  /// By the options of metric number `metric`.
  bool matches(const tasks::Document& document, size_t metric, const std::string& text,
               const tasks::Question& question) const;

  const tasks::Task& task_;
  bool has_many_right_;
  std::vector<tasks::TextFilter> filters_;
  std::vector<tasks::TextMatch> matches_;  // by metric
};

/// A number and its standard error; nothing where there is none of such a metric, or of one
/// document.
struct Summary {
  double value = 0;
  std::optional<double> error = {};
};
/// `resamples` of the bootstrap; 0: no errors at all.
Summary summarize(tasks::Aggregation aggregation, std::span<const MetricValue> values,
                  int64_t resamples, ThreadPool& pool);

}  // namespace megalith::evaluate
