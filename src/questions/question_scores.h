// SPDX-License-Identifier: Apache-2.0
// Answers to a set's questions, and how well they match the right ones, as SQuAD's official scripts
// count (Rajpurkar et al. 2016, 2018).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "questions/question_file.h"

namespace megalith::questions {

/// To each question of a set, in order; nothing where none was given.
using GivenAnswers = std::vector<std::optional<std::string>>;

/// Of a file {"id": "text"}; ids that the set does not have are ignored. UserError for what is no
/// such file, and where some questions have no answer (SQuAD 2.0) for one that is not there: the
/// first script counts it 0, the second one fails.
GivenAnswers read_answers(const std::string& file, const QuestionSet& set);

/// "exact_match" and "f1", means over all questions in percent; where some questions have no answer
/// and others have one, also the F1 of both, "answerable_f1" and "unanswerable_f1". What was not
/// answered counts 0.
nlohmann::ordered_json answer_scores(const QuestionSet& set, const GivenAnswers& given);

}  // namespace megalith::questions
