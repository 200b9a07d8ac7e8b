// SPDX-License-Identifier: Apache-2.0
// A text with {field} where a line's field stands, the last of them the answer, as NeMo's
// prompt_template has it: "Context: {context} Question: {question} Answer: {answer}".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace megalith::tune {

/// What is given and what is to be learned; one text when joined.
struct PromptAndAnswer {
  std::string prompt;
  std::string answer;
};

class FieldTemplate {
 public:
  /// `\n`, `\t` and `\\` stand for what they are in C. UserError when the text does not end with a
  /// field, names none, or has a brace that is no field's; `where` begins it.
  FieldTemplate(std::string_view text, const std::string& where);

  /// The value of a field. May throw.
  using ValueOf = FunctionRef<std::string(const std::string& field)>;
  /// Spaces at both ends of values are left out, and the answer has those that stand before it in
  /// the template, so that the prompt ends where a person who asks would end it.
  PromptAndAnswer fill(ValueOf value_of) const;
  const std::vector<std::string>& fields() const { return fields_; }

 private:
  std::vector<std::string> texts_;   // before each field
  std::vector<std::string> fields_;  // as many
};

}  // namespace megalith::tune
