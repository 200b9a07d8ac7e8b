// SPDX-License-Identifier: Apache-2.0
#include "questions/question_scores.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_fault.h"
#include "metrics/answers.h"

namespace megalith::questions {

GivenAnswers read_answers(const std::string& file, const QuestionSet& set) {
  const std::string text = read_file(file, kMostSetBytes);
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", file, *fault);
  const auto json = nlohmann::json::parse(text);
  if (!json.is_object()) throw UserError("{}: is no object of texts by the ids of questions", file);
  GivenAnswers given;
  for (const Question& question : set.questions) {
    const auto found = json.find(question.id);
    if (found == json.end()) {
      if (set.has_unanswerable)
        throw UserError(
            "{}: has no answer to question {:?}; where some are unanswerable, as in SQuAD 2.0, an "
            "empty text says that it is",
            file, question.id);
      given.emplace_back();
      continue;
    }
    if (!found->is_string())
      throw UserError("{}: the prediction of {:?} is no text", file, question.id);
    given.emplace_back(found->get<std::string>());
  }
  return given;
}

nlohmann::ordered_json answer_scores(const QuestionSet& set, const GivenAnswers& given) {
  MEGA_CHECK_EQ(given.size(), set.questions.size());
  std::vector<double> matches, all, answerable, unanswerable;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::vector<std::string> right = set.questions[i].answer_texts();
    const metrics::AnswerScore score =
        given[i] ? metrics::answer_score(*given[i], right, set.has_unanswerable)
                 : metrics::AnswerScore{};
    matches.push_back(score.exact_match);
    all.push_back(score.f1);
    (right.empty() ? unanswerable : answerable).push_back(score.f1);
  }
  nlohmann::ordered_json json = {{"exact_match", metrics::percent_of(matches)},
                                 {"f1", metrics::percent_of(all)}};
  if (!answerable.empty() && !unanswerable.empty()) {
    json["answerable_f1"] = metrics::percent_of(answerable);
    json["unanswerable_f1"] = metrics::percent_of(unanswerable);
  }
  return json;
}

}  // namespace megalith::questions
