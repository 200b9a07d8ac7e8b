// SPDX-License-Identifier: Apache-2.0
// What a model's text must be, exactly: the texts of a grammar and no others. Sources of grammars
// are not trusted: what they may cost is bounded, and what is not supported is refused by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "grammar_automata/automaton.h"

namespace megalith::grammars {

/// White space between JSON's tokens; there is never any before or behind the whole.
enum class Whitespace {
  /// Nothing or one space behind a colon; behind a comma, `{` and `[` and before `}` and `]`
  /// nothing, one space, or a line break and up to kMostIndent spaces and tabs.
  flexible,
  in_line,  // the same without line breaks
  compact,  // none at all
};
inline constexpr int kMostIndent = 32;

/// Largest text of a schema or expression, and of all choices together.
inline constexpr size_t kMostGrammarBytes = size_t{1} << 20;

/// Immutable. Copies share the automaton.
class Grammar {
 public:
  /// The texts of JSON that fit a schema of JSON Schema 2020-12; the room's README says what is
  /// supported and how it is read. UserError names `where`, the place in the schema and what is
  /// wrong.
  static Grammar parse_json_schema(std::string_view text, std::string_view where,
                                   Whitespace whitespace = Whitespace::flexible);
  /// Any JSON object: `{"type": "json_object"}` of the OpenAI interface.
  static Grammar json(Whitespace whitespace = Whitespace::flexible);
  /// These texts. UserError if there is none, or one is not UTF-8.
  static Grammar choices(std::span<const std::string> texts);
  /// The texts that match an expression (ECMAScript's syntax without look-around, back references
  /// and \b) from their beginning to their end. UserError with the place of what is wrong.
  static Grammar regex(std::string_view expression);

  explicit Grammar(Automaton automaton)
      : automaton_(std::make_shared<const Automaton>(std::move(automaton))) {}
  const Automaton& automaton() const { return *automaton_; }
  std::shared_ptr<const Automaton> shared_automaton() const { return automaton_; }

 private:
  std::shared_ptr<const Automaton> automaton_;
};

}  // namespace megalith::grammars
