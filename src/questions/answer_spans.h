// SPDX-License-Identifier: Apache-2.0
// Answers from a model's start and end logits: the best-scored span of a context, as transformers'
// example for question answering (postprocess_qa_predictions) finds it.
#pragma once

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

/// The span of the context with the largest start logit + end logit over all windows of a question,
/// the first of equal ones. Empty where there is none, and, with may_be_none, where the null score
/// exceeds that sum by more than none_threshold: the least start + end logit of the windows' first
/// tokens.
std::string best_answer(const std::string& context, std::span<const QuestionWindow> windows,
                        std::span<const TokenScores> scores, const AnswerRule& rule);

}  // namespace megalith::questions
