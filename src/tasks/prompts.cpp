// SPDX-License-Identifier: Apache-2.0
#include "tasks/prompts.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "characters/utf8.h"
#include "chat_values/python_literal.h"
#include "chat_values/python_text.h"

namespace megalith::tasks {
namespace {

bool begins_blank(std::string_view text) {
  return chat::is_space(characters::read_utf8(text.data()).code);
}
bool ends_blank(std::string_view text) {
  return chat::strip(text, chat::Side::right).size() < text.size();
}

/// Joined, with the delimiter where neither has white space at the joint.
std::string delimited(const std::string& prefix, const std::string& suffix) {
  if (prefix.empty() || suffix.empty()) return prefix + suffix;
  return prefix + (ends_blank(prefix) || begins_blank(suffix) ? "" : " ") + suffix;
}

chat::Value target_of(const Task& task, const Document& document) {
  chat::Value value = task.target.value(document);
  if (!task.target.is_rendered(document)) return value;
  const std::string& text = value.bytes();
  if (const auto number = number_of_digits(text); number && task.choices)
    return chat::Value::integer(*number);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return value;
  chat::Budget budget = document_budget();
  try {
    return chat::parse_literal(text, budget);
  } catch (const chat::Fault&) {
    return value;  // a text in brackets
  }
}

std::vector<std::string> choices_of(const Task& task, const Document& document) {
  chat::Value value = task.choices.value(document);
  chat::Budget budget = document_budget();
  try {
    if (task.choices.is_rendered(document)) value = chat::parse_literal(value.bytes(), budget);
  } catch (const chat::Fault& fault) {
    throw UserError("{}: {} doc_to_choice gives {}", document.where, task.name, fault.what());
  }
  std::vector<std::string> choices;
  const chat::Sequence* const list = value.sequence();
  if (list != nullptr) {
    for (const chat::Value& item : list->items)
      if (item.is_text()) choices.push_back(item.bytes());
  }
  if (list == nullptr || choices.empty() || choices.size() != list->items.size())
    throw UserError("{}: {} doc_to_choice gives no list of texts", document.where, task.name);
  return choices;
}

}  // namespace

Question question_of(const Task& task, const Document& document) {
  Question question;
  if (task.choices) question.choices = choices_of(task, document);
  if (task.target) question.target = target_of(task, document);
  if (!task.text) return question;
  const chat::Value text = task.text.value(document);
  if (text.is_text()) {
    question.text = text.bytes();
    if (task.choices && task.text.is_rendered(document))
      question.text_number = number_of_digits(question.text);
    return question;
  }
  question.text_number = text.whole();
  if (!question.text_number || !task.choices)
    throw UserError("{}: {} doc_to_text gives a value of type {}, not a text", document.where,
                    task.name, chat::type_name(text));
  return question;
}

Prompts::Prompts(const Task& task, std::vector<Document> pool, int64_t shots, uint64_t seed)
    : task_(task), pool_(std::move(pool)), shots_(shots), random_(seed) {
  // As lm-eval has it: also where neither split is named.
  leaves_out_asked_ = task.splits.fewshot == task.splits.test && task.given_shots.empty();
  const int64_t needed = shots_ + (leaves_out_asked_ && !task.first_shots ? 1 : 0);
  if (shots_ > 0 && std::ssize(pool_) < needed)
    throw UserError("--shots {}: {} has {} examples to show, and {} are needed", shots_, task.name,
                    pool_.size(), needed);
  chat::Budget budget(chat::Limits{.steps = INT64_MAX / 2, .memory_bytes = SIZE_MAX / 4});
  if (shots_ > 0 && leaves_out_asked_)
    for (const Document& one : pool_) shown_.push_back(chat::repr(one.record, budget));
}

std::vector<const Document*> Prompts::examples(const Document& document) {
  const auto count = static_cast<size_t>(shots_);
  std::string asked;
  if (leaves_out_asked_) {
    chat::Budget budget = document_budget();
    asked = chat::repr(document.record, budget);
  }
  const auto is_other = [&](size_t i) { return !leaves_out_asked_ || shown_[i] != asked; };
  std::vector<const Document*> chosen;
  if (task_.first_shots) {
    for (size_t i = 0; i < pool_.size() && chosen.size() < count; ++i)
      if (is_other(i)) chosen.push_back(&pool_[i]);
    return chosen;
  }
  const auto n = static_cast<uint32_t>(pool_.size());
  for (const uint32_t i : random_.sample(n, static_cast<uint32_t>(count + leaves_out_asked_)))
    if (is_other(i) && chosen.size() < count) chosen.push_back(&pool_[i]);
  if (chosen.size() == count) return chosen;
  // Several documents equal to the one that is asked were drawn: anew, from the others alone.
  std::vector<size_t> others;
  for (size_t i = 0; i < pool_.size(); ++i)
    if (is_other(i)) others.push_back(i);
  if (others.size() < count)
    throw UserError("{}: of its examples only {} differ from it", document.where, others.size());
  chosen.clear();
  for (const uint32_t i :
       random_.sample(static_cast<uint32_t>(others.size()), static_cast<uint32_t>(count)))
    chosen.push_back(&pool_[others[i]]);
  return chosen;
}

namespace {

/// One of an example's choices. A negative number is none, as where answers are judged.
const std::string& choice_at(const Document& document, const Question& question, int64_t number) {
  const int64_t count = std::ssize(question.choices);
  if (number < 0 || number >= count)
    throw UserError("{}: an example that names choice {}, and its choices are 0 to {}",
                    document.where, number, count - 1);
  return question.choices[static_cast<size_t>(number)];
}

/// The right answer in words.
std::string answer_of(const Task& task, const Document& document, const Question& question) {
  chat::Value answer = question.target;
  const bool by_number = answer.whole().has_value() && !question.text_number;
  if (by_number && !question.choices.empty()) return choice_at(document, question, *answer.whole());
  if (const chat::Sequence* const list = answer.sequence(); list != nullptr && !list->items.empty())
    answer = chat::Value(list->items[0]);
  if (!answer.is_text())
    throw UserError("{}: {} doc_to_target gives an example's answer of type {}, not a text",
                    document.where, task.name, chat::type_name(answer));
  return answer.bytes();
}

std::string prefix_of(const Task& task, const Document& document) {
  if (!task.gen_prefix) return "";
  chat::Budget budget = document_budget();
  return chat::str(task.gen_prefix.value(document), budget);
}

/// What stands between a question and a beginning of its answer.
std::string joint(const Task& task, const std::string& question, const std::string& prefix) {
  const bool needs =
      !prefix.empty() && !question.empty() && !ends_blank(question) && !begins_blank(prefix);
  return needs ? task.target_delimiter : "";
}

}  // namespace

std::string Prompts::example(const Document& document) const {
  const Question question = question_of(task_, document);
  std::string text = question.text;
  if (question.text_number) text = choice_at(document, question, *question.text_number);
  const std::string answer = answer_of(task_, document, question);
  const std::string prefix = prefix_of(task_, document);
  if (answer.empty()) return text + joint(task_, text, prefix) + prefix;
  text += prefix.empty() ? task_.target_delimiter : joint(task_, text, prefix);
  return text + delimited(prefix, answer) + task_.fewshot_delimiter;
}

std::string Prompts::beginning(const Document& document) {
  std::string text;
  if (!task_.description.empty()) {
    chat::Budget budget = document_budget();
    text = task_.description_part ? chat::str(task_.description_part.value(document), budget)
                                  : task_.description;
  }
  if (shots_ == 0) return text;
  for (const Document* const one : examples(document)) text += example(*one);
  return text;
}

AskedDocument Prompts::ask(const Document& document) {
  AskedDocument result{.question = question_of(task_, document)};
  const Question& question = result.question;
  const std::string before = beginning(document), prefix = prefix_of(task_, document);
  chat::Budget budget = document_budget();
  const auto context_of = [&](const std::string& text) {
    return before + text + joint(task_, text, prefix) + prefix;
  };
  switch (task_.type) {
    case OutputType::loglikelihood:
      result.asked = {{context_of(question.text), chat::str(question.target, budget)}};
      break;
    case OutputType::loglikelihood_rolling:
      result.asked = {{"", chat::str(question.target, budget)}};
      break;
    case OutputType::generate_until:
      result.asked = {{context_of(question.text), ""}};
      break;
    case OutputType::multiple_choice:
      for (const std::string& choice : question.choices) {
        if (question.text_number) {
          const std::string target = chat::str(question.target, budget);
          result.asked.push_back(
              {before + choice + (prefix.empty() ? "" : prefix), task_.target_delimiter + target});
        } else {
          result.asked.push_back({context_of(question.text), task_.target_delimiter + choice});
        }
      }
      break;
  }
  const auto needs_own = [&](const MetricUse& use) {
    return use.metric == Metric::acc_mutual_info ||
           (use.metric == Metric::acc_norm && task_.norm == Norm::gain);
  };
  if (task_.type == OutputType::multiple_choice && std::ranges::any_of(task_.metrics, needs_own)) {
    for (const std::string& choice : question.choices)
      result.asked.push_back({task_.unconditional, task_.target_delimiter + choice});
  }
  return result;
}

}  // namespace megalith::tasks
