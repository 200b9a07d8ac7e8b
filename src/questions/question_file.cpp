// SPDX-License-Identifier: Apache-2.0
#include "questions/question_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fault.h"
#include "characters/utf8.h"

namespace megalith::questions {
namespace {

using SetJson = nlohmann::json;

/// A member that must be there and be a list.
const SetJson& list_under(const SetJson& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_array())
    throw UserError("{}: there is no list \"{}\" where SQuAD has one", where, key);
  return json[key];
}

std::string text_under(const SetJson& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_string())
    throw UserError("{}: there is no text \"{}\" where SQuAD has one", where, key);
  return json[key].get<std::string>();
}

/// The byte where character `number` of a text begins, or its end; -1 where it has not so many.
int64_t byte_of(std::string_view text, int64_t number) {
  size_t at = 0;
  for (; number > 0 && at < text.size(); --number) at += characters::read_utf8(&text[at]).length;
  return number == 0 ? static_cast<int64_t>(at) : -1;
}

Question::Answer answer_of(const SetJson& json, const std::string& context, AnswerPlaces places,
                           const std::string& where) {
  Question::Answer answer{text_under(json, "text", where)};
  if (places == AnswerPlaces::ignored) return answer;
  if (!json.contains("answer_start") || !json["answer_start"].is_number_integer() ||
      json["answer_start"].get<int64_t>() < 0)
    throw UserError("{}: \"answer_start\" is no number of characters from 0 on", where);
  answer.begin = byte_of(context, json["answer_start"].get<int64_t>());
  const bool is_there =
      answer.begin >= 0 && !answer.text.empty() &&
      context.compare(static_cast<size_t>(answer.begin), answer.text.size(), answer.text) == 0;
  if (!is_there)
    throw UserError("{}: the answer {:?} does not stand at character {} of the context", where,
                    answer.text, json["answer_start"].get<int64_t>());
  return answer;
}

Question question_about(const SetJson& json, const QuestionSet& set, AnswerPlaces places) {
  Question question;
  question.id = text_under(json, "id", set.file);
  const std::string where = fmt::format("{}: question {:?}", set.file, question.id);
  question.text = text_under(json, "question", where);
  question.context = set.contexts.size() - 1;
  if (json.contains("is_impossible") && !json["is_impossible"].is_boolean())
    throw UserError("{}: \"is_impossible\" is neither true nor false", where);
  const bool is_impossible = json.value("is_impossible", false);
  for (const SetJson& answer : list_under(json, "answers", where)) {
    if (is_impossible) throw UserError("{}: is impossible and has an answer", where);
    question.answers.push_back(answer_of(answer, set.contexts.back(), places, where));
  }
  return question;
}

}  // namespace

std::vector<std::string> Question::answer_texts() const {
  std::vector<std::string> texts;
  for (const Answer& answer : answers) texts.push_back(answer.text);
  return texts;
}

QuestionSet read_question_file(const std::string& file, AnswerPlaces places) {
  const std::string text = read_file(file, kMostSetBytes);
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", file, *fault);
  const SetJson json = SetJson::parse(text);
  QuestionSet set;
  set.file = file;
  std::set<std::string> ids;
  for (const SetJson& article : list_under(json, "data", file)) {
    for (const SetJson& paragraph : list_under(article, "paragraphs", file)) {
      set.contexts.push_back(text_under(paragraph, "context", file));
      for (const SetJson& one : list_under(paragraph, "qas", file)) {
        const Question& made = set.questions.emplace_back(question_about(one, set, places));
        set.has_unanswerable = set.has_unanswerable || made.answers.empty();
        if (!ids.insert(made.id).second)
          throw UserError("{}: question {:?} comes twice", file, made.id);
      }
    }
  }
  if (set.questions.empty()) throw UserError("{}: has no questions", file);
  return set;
}

}  // namespace megalith::questions
