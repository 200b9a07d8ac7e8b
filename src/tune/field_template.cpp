// SPDX-License-Identifier: Apache-2.0
#include "tune/field_template.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace megalith::tune {
namespace {

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    const size_t known = std::string_view("nt\\").find(next);
    if (next == '\0' || known == std::string_view::npos) {
      plain += text[i];
    } else {
      plain += "\n\t\\"[known];
      ++i;
    }
  }
  return plain;
}

bool is_field_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

/// Without spaces at its ends, as NeMo strips them.
std::string_view stripped(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

}  // namespace

FieldTemplate::FieldTemplate(std::string_view text, const std::string& where) {
  const std::string plain = unescaped(text);
  size_t at = 0;
  while (at < plain.size()) {
    const size_t open = plain.find_first_of("{}", at);
    if (open == std::string::npos) break;
    const size_t close = plain[open] == '{' ? plain.find('}', open) : std::string::npos;
    const std::string_view name = close == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(plain).substr(open + 1, close - open - 1);
    if (!is_field_name(name)) {
      throw UserError("{} {:?}: character {} is a brace, but no {{field}} of a line", where, text,
                      open);
    }
    texts_.push_back(plain.substr(at, open - at));
    fields_.emplace_back(name);
    at = close + 1;
  }
  if (fields_.empty() || at < plain.size()) {
    throw UserError(
        "{} {:?}: does not end with the {{field}} of the answer, as \"{{input}} {{output}}\" does",
        where, text);
  }
}

PromptAndAnswer FieldTemplate::fill(ValueOf value_of) const {
  PromptAndAnswer made;
  for (size_t i = 0; i < fields_.size(); ++i) {
    made.prompt += texts_[i];
    const std::string value = value_of(fields_[i]);
    if (i + 1 < fields_.size()) {
      made.prompt += stripped(value);
    } else {
      made.answer = stripped(value);
    }
  }
  if (made.answer.empty()) return made;
  const size_t end = made.prompt.find_last_not_of(' ') + 1;  // npos + 1 is 0
  made.answer.insert(0, made.prompt, end);
  made.prompt.resize(end);
  return made;
}

}  // namespace megalith::tune
