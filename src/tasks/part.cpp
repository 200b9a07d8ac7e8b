// SPDX-License-Identifier: Apache-2.0
#include "tasks/part.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace megalith::tasks {

Part::Part(std::string source, std::string name) {
  constexpr chat::Dialect kDialect{
      .trims_blocks = false, .keeps_last_line_end = true, .is_strict = true};
  auto compiled =
      std::make_shared<const chat::Template>(source, std::move(name), chat::Limits{}, kDialect);
  given_ = Source{std::move(source), std::move(compiled)};
}

Part Part::field(std::string name) {
  Part part;
  part.given_ = Source{std::move(name), nullptr};
  return part;
}

const std::string* Part::source() const {
  const Source* const given = std::get_if<Source>(&given_);
  return given != nullptr ? &given->text : nullptr;
}

std::optional<int64_t> Part::number() const {
  const int64_t* const given = std::get_if<int64_t>(&given_);
  return given != nullptr ? std::optional(*given) : std::nullopt;
}

bool Part::is_rendered(const Document& document) const {
  const std::string* const given = source();
  return given != nullptr && std::get<Source>(given_).compiled != nullptr &&
         document.find(*given) == nullptr;
}

chat::Value Part::value(const Document& document) const {
  if (const auto fixed = number()) return chat::Value::integer(*fixed);
  if (list() != nullptr) return list_value(*list());
  const Source& given = std::get<Source>(given_);
  if (given.compiled == nullptr) return document.field(given.text);
  if (const chat::Value* const found = document.find(given.text)) return *found;
  try {
    // Nothing that a task prints depends on the time.
    return text_value(given.compiled->render(document.variables, std::tm{}));
  } catch (const UserError& error) {
    throw UserError("{}: {}", document.where, error.what());
  }
}

std::optional<int64_t> number_of_digits(const std::string& text) {
  int64_t number = 0;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return {};
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, number).ec != std::errc()) return {};
  return number;
}

}  // namespace megalith::tasks
