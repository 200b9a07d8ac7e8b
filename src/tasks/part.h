// SPDX-License-Identifier: Apache-2.0
// What a task makes of a document (doc_to_text and its like): the name of a field, a Jinja
// template, or something fixed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/template.h"
#include "tasks/document.h"

namespace megalith::tasks {

class Part {
 public:
  /// Absent.
  Part() = default;
  /// A field's name if the document has one of it, else a template. `name`: for messages. UserError
  /// for what is no template.
  Part(std::string source, std::string name);
  /// That field, which every document must have.
  static Part field(std::string name);
  explicit Part(int64_t number) : given_(number) {}
  explicit Part(std::vector<std::string> list) : given_(std::move(list)) {}

  explicit operator bool() const { return !std::holds_alternative<std::monostate>(given_); }
  /// As it was written: nothing of a number or a list.
  const std::string* source() const;
  const std::vector<std::string>* list() const {
    return std::get_if<std::vector<std::string>>(&given_);
  }
  std::optional<int64_t> number() const;

  /// A field as it is; the text of a template; what is fixed. UserError with the document's place
  /// for a template that asks for a field which is not there.
  chat::Value value(const Document& document) const;
  /// Whether value() is the text of a template.
  bool is_rendered(const Document& document) const;

 private:
  struct Source {
    std::string text;
    std::shared_ptr<const chat::Template> compiled;  // null: a field
  };
  std::variant<std::monostate, int64_t, std::vector<std::string>, Source> given_;
};

/// Of texts that templates print: the digits of a whole number alone (isdigit), as a number.
std::optional<int64_t> number_of_digits(const std::string& text);

}  // namespace megalith::tasks
