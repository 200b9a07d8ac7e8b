// SPDX-License-Identifier: Apache-2.0
// Answers from a model's start and end logits: the best-scored span of a context, as transformers'
// example for question answering (postprocess_qa_predictions) finds it. What a window says of it is
// a few numbers, so windows may be read apart from each other.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "questions/question_windows.h"

namespace megalith::questions {

struct AnswerRule {
  int64_t best = 20;          // n_best_size: starts, and ends, that are combined in each window
  int64_t most_tokens = 30;   // max_answer_length
  bool may_be_none = false;   // some questions are unanswerable (SQuAD 2.0)
  double none_threshold = 0;  // null_score_diff_threshold
};

/// The start and the end logit of each token of a window.
using TokenScores = std::vector<std::vector<double>>;

/// What one window says.
struct WindowAnswer {
  /// Start logit + end logit of its best span; -infinity where it has none.
  double score = -std::numeric_limits<double>::infinity();
  text::TextRange place = {};  // of that span in the context
  double none = 0;             // start logit + end logit of its first token
};
/// Of the window's spans within the context the one with the largest sum, of equal ones the first.
/// The window's ids are not read; the scores are finite.
WindowAnswer window_answer(const QuestionWindow& window, const TokenScores& scores,
                           const AnswerRule& rule);

/// The best span of all windows of a question, of equal ones the first. Empty where there is none,
/// and, with may_be_none, where the null score exceeds that sum by more than none_threshold: the
/// least `none` of the windows.
std::string best_answer(const std::string& context, std::span<const WindowAnswer> windows,
                        const AnswerRule& rule);

}  // namespace megalith::questions
