// SPDX-License-Identifier: Apache-2.0
#include "tasks/preparation.h"

#include <algorithm>

#include "base/error.h"
#include "chat_values/python_text.h"
#include "tasks/part.h"

namespace megalith::tasks {
namespace {

constexpr size_t kNone = std::string_view::npos;

std::string replaced(std::string_view text, std::string_view old, std::string_view with) {
  chat::Budget budget = document_budget();
  return chat::replace_text(text, old, with, -1, budget);
}

/// Without "[...]", each from its first bracket to the next that closes one on the same line.
std::string without_brackets(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == '[' ? text.find(']', at + 1) : kNone;
    if (close != kNone && text.substr(at, close - at).find('\n') == kNone) {
      at = close + 1;
    } else {
      result += text[at++];
    }
  }
  return result;
}

std::string without_wikihow(std::string_view text) {
  std::string clean(chat::strip(text, chat::Side::both));
  clean = replaced(clean, " [title]", ". ");
  return replaced(without_brackets(clean), "  ", " ");
}

/// A label from 0 up to `count`, written as a number or as its digits.
int64_t label_of(const Document& document, std::string_view field, size_t count, int64_t first) {
  const chat::Value& value = document.field(field);
  std::optional<int64_t> label = value.whole();
  if (!label && value.is_text())
    label = number_of_digits(std::string(chat::strip(value.bytes(), chat::Side::both)));
  if (label) *label -= first;
  if (!label || *label < 0 || std::cmp_greater_equal(*label, count)) {
    chat::Budget budget = document_budget();
    throw UserError("{}: \"{}\" is {}, and labels are {} to {}", document.where, field,
                    chat::repr(value, budget), first, first + static_cast<int64_t>(count) - 1);
  }
  return *label;
}

void set_gold(Document& document, int64_t gold, bool logged = false) {
  set_field(document, "gold", chat::Value::integer(gold), logged);
}

}  // namespace

void prepare_hellaswag(Document& document) {
  const std::string context =
      document.text("ctx_a") + " " + chat::capitalize(document.text("ctx_b"));
  const std::string query = without_wikihow(document.text("activity_label") + ": " + context);
  std::vector<std::string> choices = document.texts("endings");
  for (std::string& choice : choices) choice = without_wikihow(choice);
  set_field(document, "query", text_value(query), true);
  set_field(document, "choices", list_value(choices), true);
  set_gold(document, label_of(document, "label", choices.size(), 0), true);
}

void prepare_winogrande(Document& document) {
  const std::string& sentence = document.text("sentence");
  const size_t blank = sentence.find('_');
  if (blank == kNone)
    throw UserError("{}: the field \"sentence\" has no blank \"_\"", document.where);
  const std::string before = sentence.substr(0, blank);
  const std::string rest(
      chat::strip(std::string_view(sentence).substr(blank + 1), chat::Side::both));
  set_field(document, "contexts",
            list_value({before + document.text("option1"), before + document.text("option2")}),
            false);
  set_field(document, "rest", text_value(rest), false);
  set_gold(document, label_of(document, "answer", 2, 1));
}

namespace {

/// A dict's item of a document, with its place in messages.
const chat::Value& item_of(const Document& document, const chat::Value& value,
                           std::string_view key) {
  const chat::Dict* const dict = value.dict();
  const chat::Value* const found = dict != nullptr ? dict->find(key) : nullptr;
  if (found == nullptr)
    throw UserError("{}: there is no \"{}\" where the task looks for it", document.where, key);
  return *found;
}

std::string text_item(const Document& document, const chat::Value& value, std::string_view key) {
  const chat::Value& item = item_of(document, value, key);
  if (!item.is_text()) throw UserError("{}: \"{}\" is no text", document.where, key);
  return item.bytes();
}

const chat::Items& list_item(const Document& document, const chat::Value& value,
                             std::string_view key) {
  const chat::Sequence* const list = item_of(document, value, key).sequence();
  if (list == nullptr) throw UserError("{}: \"{}\" is no list", document.where, key);
  return list->items;
}

std::vector<std::string> text_items(const Document& document, const chat::Value& value,
                                    std::string_view key) {
  std::vector<std::string> texts;
  for (const chat::Value& item : list_item(document, value, key)) {
    if (!item.is_text()) throw UserError("{}: \"{}\" has what is no text", document.where, key);
    texts.push_back(item.bytes());
  }
  return texts;
}

}  // namespace

void prepare_science_question(Document& document) {
  std::vector<std::string> options, labels;
  const chat::Value* const given = document.find("question");
  const chat::Value question = given != nullptr ? *given : chat::Value();
  if (question.dict() != nullptr) {
    for (const chat::Value& choice : list_item(document, question, "choices")) {
      options.push_back(text_item(document, choice, "text"));
      labels.push_back(text_item(document, choice, "label"));
    }
    set_field(document, "question", text_value(text_item(document, question, "stem")), false);
  } else {
    const chat::Value& choices = document.field("choices");
    options = text_items(document, choices, "text");
    labels = text_items(document, choices, "label");
  }
  const std::string& key = document.text("answerKey");
  const auto found = std::ranges::find(labels, chat::strip(key, chat::Side::left));
  if (found == labels.end() || options.size() != labels.size())
    throw UserError("{}: \"answerKey\" is \"{}\", which no choice has as its label", document.where,
                    key);
  set_field(document, "options", list_value(options), false);
  set_gold(document, found - labels.begin());
}

void prepare_boolq(Document& document) {
  const chat::Value* const answer = document.find("answer");
  const bool* const truth = answer != nullptr ? answer->get_if<bool>() : nullptr;
  const bool has_label = document.find("label") != nullptr;
  set_gold(document,
           truth != nullptr && !has_label ? int64_t{*truth} : label_of(document, "label", 2, 0));
}

void prepare_wikitext(Document& document) {
  set_field(document, "text", text_value(detokenized_wikitext(document.text("page"))), false);
}

void prepare_lambada_nemo(Document& document) {
  std::string text = document.text("text");
  for (const auto& [curly, plain] : {std::pair{"“", "\""}, {"”", "\""}, {"‘", "'"}, {"’", "'"}})
    text = replaced(text, curly, plain);
  text = "\n" + std::string(chat::strip(text, chat::Side::both));
  const size_t blank = text.rfind(' ');
  if (blank == kNone)
    throw UserError("{}: the field \"text\" has one word; the last is asked for after others",
                    document.where);
  set_field(document, "context", text_value(text.substr(0, blank)), false);
  set_field(document, "last", text_value(text.substr(blank)), false);
}

namespace {

/// Between an opening and the next closing sign, without white space at the ends.
std::string tightened(std::string_view text, char open, char close) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == open ? text.find(close, at + 1) : kNone;
    if (end == kNone) {
      result += text[at++];
      continue;
    }
    result += open;
    result += chat::strip(text.substr(at + 1, end - at - 1), chat::Side::both);
    result += close;
    at = end + 1;
  }
  return result;
}

}  // namespace

std::string detokenized_wikitext(std::string text) {
  using Pair = std::pair<std::string_view, std::string_view>;
  const auto replace = [&](std::initializer_list<Pair> pairs) {
    for (const auto& [old, with] : pairs) text = replaced(text, old, with);
  };
  // The harness has an expression here that was to draw "' 1" together; as it is written it
  // matches only between slashes, and puts itself in.
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  replace({{"s '", "s'"}});
  constexpr std::string_view kItself = "/'[0-9]/";
  for (size_t at = 0; (at = text.find("/' ", at)) != kNone;) {
    const bool matches = at + 4 < text.size() && is_digit(text[at + 3]) && text[at + 4] == '/';
    if (matches) text.replace(at, 5, kItself);
    at += matches ? kItself.size() : 1;
  }
  replace({{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}});
  replace({{" : ", ": "}, {" ; ", "; "}, {" . ", ". "}});
  replace({{" ! ", "! "}, {" ? ", "? "}, {" , ", ", "}});
  text = tightened(text, '(', ')');
  text = tightened(text, '[', ']');
  text = tightened(text, '{', '}');
  text = tightened(text, '"', '"');
  text = tightened(text, '\'', '\'');
  replace({{"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="}});
  replace({{" ° ", "°"}, {" \n", "\n"}, {"\n ", "\n"}, {" N ", " 1 "}, {" 's", "'s"}});
  return text;
}

}  // namespace megalith::tasks
