// SPDX-License-Identifier: Apache-2.0
// RACE (Lai et al. 2017): articles with several problems, of which the last is asked.
#include <array>
#include <span>

#include "base/error.h"
#include "chat_values/python_literal.h"
#include "chat_values/python_text.h"
#include "tasks/preparation.h"

namespace megalith::tasks {
namespace {

struct Problem {
  std::string question;
  std::vector<std::string> options;
  size_t answer = 0;
};

Problem problem_of(const Document& document, const chat::Value& value) {
  const chat::Dict* const dict = value.dict();
  const auto part = [&](std::string_view key) -> const chat::Value& {
    const chat::Value* const found = dict != nullptr ? dict->find(key) : nullptr;
    if (found == nullptr) throw UserError("{}: a problem without \"{}\"", document.where, key);
    return *found;
  };
  Problem problem;
  const chat::Value &question = part("question"), &options = part("options"),
                    &answer = part("answer");
  if (!question.is_text() || options.sequence() == nullptr || !answer.is_text())
    throw UserError("{}: a problem whose question, options and answer are no text, list and text",
                    document.where);
  problem.question = question.bytes();
  for (const chat::Value& option : options.sequence()->items) {
    if (!option.is_text()) throw UserError("{}: an option that is no text", document.where);
    problem.options.push_back(option.bytes());
  }
  const std::string& letter = answer.bytes();
  problem.answer = letter.size() == 1 ? static_cast<size_t>(letter[0] - 'A') : 4;
  if (problem.options.size() != 4 || problem.answer > 3)
    throw UserError("{}: a problem with {} options and the answer \"{}\", not four and A to D",
                    document.where, problem.options.size(), letter);
  return problem;
}

std::vector<Problem> problems_of(const Document& document) {
  chat::Budget budget = document_budget();
  chat::Value value = document.field("problems");
  try {
    if (value.is_text()) value = chat::parse_literal(value.bytes(), budget);
  } catch (const chat::Fault& fault) {
    throw UserError("{}: \"problems\" is {}", document.where, fault.what());
  }
  std::vector<Problem> problems;
  if (const chat::Sequence* const list = value.sequence()) {
    for (const chat::Value& one : list->items) problems.push_back(problem_of(document, one));
  }
  if (problems.empty())
    throw UserError("{}: \"problems\" is no list with at least one problem", document.where);
  return problems;
}

/// Before the last question. A blank in a question takes the answer's place.
std::string earlier(const Document& document, std::span<const Problem> problems) {
  std::string text = "Article: " + document.text("article") + "\n\n";
  for (const Problem& problem : problems) {
    const std::string& answer = problem.options[problem.answer];
    if (problem.question.ends_with("  _  ."))
      text += problem.question.substr(0, problem.question.size() - 5) + answer + "\n";
    else
      text += "Question: " + problem.question + "\nAnswer: " + answer + "\n";
  }
  return text;
}

void set_problem(Document& document, std::string query, const Problem& last) {
  set_field(document, "query", text_value(std::move(query)), false);
  set_field(document, "options", list_value(last.options), false);
  set_field(document, "gold", chat::Value::integer(static_cast<int64_t>(last.answer)), false);
}

}  // namespace

void prepare_race(Document& document) {
  const std::vector<Problem> problems = problems_of(document);
  const auto before = std::span(problems).first(problems.size() - 1);
  set_problem(document, earlier(document, before) + problems.back().question, problems.back());
}

void prepare_race_nemo(Document& document) {
  const std::vector<Problem> problems = problems_of(document);
  std::string text = "Article: " + document.text("article") + "\n\n";
  for (const Problem& problem : std::span(problems).first(problems.size() - 1))
    text += "Question: " + problem.question + "\nAnswer: " + problem.options[problem.answer] + "\n";
  text += "Question: " + problems.back().question + "\nAnswer:";
  set_problem(document, std::move(text), problems.back());
}

std::vector<Document> group_race(std::vector<Document> rows) {
  if (rows.front().find("problems") != nullptr) return rows;
  constexpr std::array<std::string_view, 3> kOfProblem = {"question", "options", "answer"};
  chat::Budget budget = document_budget();
  std::vector<Document> articles;
  chat::Items problems;
  const auto close = [&] {
    if (articles.empty()) return;
    set_field(articles.back(), "problems", chat::make_list(std::exchange(problems, {}), budget),
              true);
  };
  for (Document& row : rows) {
    chat::Dict problem;
    for (const std::string_view key : kOfProblem)
      problem.set(text_value(std::string(key)), row.field(key), budget);
    if (articles.empty() || articles.back().text("article") != row.text("article")) {
      close();
      articles.push_back(std::move(row));
    }
    problems.push_back(chat::make_dict(std::move(problem), budget));
  }
  close();
  return articles;
}

}  // namespace megalith::tasks
