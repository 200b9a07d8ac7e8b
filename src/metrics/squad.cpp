// SPDX-License-Identifier: Apache-2.0
// The files of SQuAD.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fault.h"
#include "metrics/answers.h"
#include "metrics/glue.h"

namespace megalith::metrics {
namespace {

using Json = nlohmann::json;

Json read_json(const std::filesystem::path& file) {
  const std::string text = read_file(file, int64_t{1} << 30);
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", file.string(), *fault);
  return Json::parse(text);
}

/// A member that must be there and be a list.
const Json& list_in(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_array())
    throw UserError("{}: there is no list \"{}\" where SQuAD has one", where, key);
  return json[key];
}

struct Question {
  std::string id;
  std::vector<std::string> answers;
};

Question question_of(const Json& json, const std::string& where) {
  Question question;
  if (json.is_object() && json.contains("id") && json["id"].is_string())
    question.id = json["id"].get<std::string>();
  else
    throw UserError("{}: a question without \"id\"", where);
  for (const Json& answer : list_in(json, "answers", where)) {
    if (!answer.is_object() || !answer.contains("text") || !answer["text"].is_string())
      throw UserError("{}: question {:?} has an answer without \"text\"", where, question.id);
    question.answers.push_back(answer["text"].get<std::string>());
  }
  return question;
}

std::vector<Question> questions_of(const std::filesystem::path& file) {
  const Json set = read_json(file);
  const std::string where = file.string();
  std::vector<Question> questions;
  for (const Json& article : list_in(set, "data", where))
    for (const Json& paragraph : list_in(article, "paragraphs", where))
      for (const Json& one : list_in(paragraph, "qas", where))
        questions.push_back(question_of(one, where));
  if (questions.empty()) throw UserError("{}: has no questions", where);
  return questions;
}

}  // namespace

nlohmann::ordered_json squad_metrics(const std::filesystem::path& labels,
                                     const std::filesystem::path& predictions, int64_t& examples) {
  const std::vector<Question> questions = questions_of(labels);
  const Json said = read_json(predictions);
  if (!said.is_object())
    throw UserError("{}: is no object of texts by the ids of questions", predictions.string());
  // As SQuAD 2.0 has them.
  const bool may_be_none =
      std::ranges::any_of(questions, [](const Question& one) { return one.answers.empty(); });
  std::vector<double> matches, scores;
  for (const Question& question : questions) {
    const auto found = said.find(question.id);
    if (found != said.end() && !found->is_string())
      throw UserError("{}: the prediction of {:?} is no text", predictions.string(), question.id);
    const bool is_said = found != said.end();
    const std::string text = is_said ? found->get<std::string>() : std::string();
    const AnswerScore score =
        is_said ? answer_score(text, question.answers, may_be_none) : AnswerScore{};
    matches.push_back(score.exact_match);
    scores.push_back(score.f1);
  }
  examples = std::ssize(questions);
  return {{"exact_match", percent_of(matches)}, {"f1", percent_of(scores)}};
}

}  // namespace megalith::metrics
