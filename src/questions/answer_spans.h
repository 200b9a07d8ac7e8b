// SPDX-License-Identifier: Apache-2.0
// Answers from what a model says of the tokens of windows: the likeliest stretch of a context, as
// transformers' example for question answering (postprocess_qa_predictions) finds it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "questions/question_windows.h"

namespace megalith::questions {

struct AnswerRule {
  int64_t best = 20;          // begins, and ends, that are combined in each window
  int64_t most_tokens = 30;   // of an answer
  bool may_be_none = false;   // some questions have no answer
  double none_threshold = 0;  // how much likelier none must be than the best answer
};

/// Of each token of a window two numbers: how likely an answer begins, and ends there.
using TokenScores = std::vector<std::vector<double>>;

/// The stretch of the context whose two numbers have the largest sum over all windows of a
/// question, of equal ones the first; empty where there is none, or none is likelier: what the
/// first token of a window says stands for that (the least over the windows).
std::string best_answer(const std::string& context, std::span<const QuestionWindow> windows,
                        std::span<const TokenScores> scores, const AnswerRule& rule);

}  // namespace megalith::questions
