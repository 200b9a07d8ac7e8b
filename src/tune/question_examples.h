// SPDX-License-Identifier: Apache-2.0
// Files of questions with answers in their texts (SQuAD's JSON, questions/question_file.h) as
// examples, one of each window, and SQuAD's scores of what a model says of them in validations.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/host_batch.h"
#include "metrics/classification.h"
#include "questions/answer_spans.h"
#include "tune/example_source.h"

namespace megalith::tune {

/// The questions of all files as one set, and where the examples that were made of them stand in
/// their texts.
struct AskedQuestions {
  questions::QuestionSet set;
  std::vector<questions::QuestionWindow> windows;  // of the examples, in order; without ids
  std::vector<int64_t> begins = {0};               // of each question's windows, and the end
};

/// Each window of a question is an example, whose target is the answer's first and last token.
/// `asked` is overwritten; null: nobody scores them. UserErrors are those of the files and windows.
std::vector<Example> read_questions(const std::vector<std::string>& files,
                                    const text::Tokenizer& tokenizer,
                                    const questions::WindowRule& rule, ExampleCounts& counts,
                                    AskedQuestions* asked);

/// Scores validations of such examples by the rule and with the code of `evaluate answers`: exact
/// match and F1 in percent, over the questions of which every window was read. Of a window four
/// numbers are kept (questions::WindowAnswer), so no rank needs the logits of another.
class AnswerJudge {
 public:
  /// `source` has the examples of `asked`, not shuffled.
  AnswerJudge(AskedQuestions asked, std::shared_ptr<const ExampleSource> source);

  /// engine::KeepSpans, of batches of the source. Logits that are not finite are kept as such.
  void keep(const data::HostBatch& batch, std::span<const double> y_TO,
            std::vector<double>& kept) const;
  /// What was kept of the first `samples` samples as scores, by the names of
  /// questions::answer_scores; NaN where a logit was not finite; none where no question was read
  /// whole.
  metrics::Scores scores(int64_t samples, std::span<const double> kept) const;

  /// Changes with all that scores come from beside the model and the samples: the texts, what is
  /// right of each question, where windows stand, and whether there may be no answer.
  std::string fingerprint() const;

  int64_t num_questions() const { return std::ssize(asked_.set.questions); }
  /// The numbers of those of which the first `samples` samples have every window.
  std::vector<size_t> whole_questions(int64_t samples) const;

 private:
  AskedQuestions asked_;
  std::shared_ptr<const ExampleSource> source_;
  questions::AnswerRule rule_;
};

}  // namespace megalith::tune
