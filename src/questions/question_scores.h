// SPDX-License-Identifier: Apache-2.0
// Answers to a set's questions, and their scores by SQuAD's official scripts (Rajpurkar et al.
// 2016, 2018).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "questions/question_file.h"

namespace megalith::questions {

/// One for each question of a set, in order; nothing where none was given.
using GivenAnswers = std::vector<std::optional<std::string>>;

/// From a file {"id": "text"}; ids that the set does not have are ignored. UserError for a file
/// that is not of this form and, where some questions are unanswerable (SQuAD 2.0), for a question
/// without an answer in it: the script of version 1.1 counts that as 0, that of version 2.0 fails.
GivenAnswers read_answers(const std::string& file, const QuestionSet& set);

/// "exact_match" and "f1", means over all questions in percent; where some questions are answerable
/// and some are not, also the F1 of either kind, "answerable_f1" and "unanswerable_f1". A question
/// without a given answer counts as 0.
nlohmann::ordered_json answer_scores(const QuestionSet& set, const GivenAnswers& given);

}  // namespace megalith::questions
