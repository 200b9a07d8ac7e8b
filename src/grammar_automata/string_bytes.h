// SPDX-License-Identifier: Apache-2.0
// Strings of characters as bytes: as they are, or as JSON spells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar_automata/automaton.h"
#include "grammar_automata/code_automaton.h"

namespace megalith::grammars {

/// How JSON must spell a character: itself, or an escape (`\"`, `\n`, `\u001f`).
void append_json_character(std::string& text, uint32_t code);
/// A text within quotation marks, spelled so; the text must be UTF-8.
std::string json_spelling(std::string_view text);

/// Adds the texts of an automaton of characters between two states, as they are.
void add_text_automaton(AutomatonBuilder& builder, State from, const CodeAutomaton& automaton,
                        State to);

/// Begins of levels for JSON strings: from behind the opening quotation mark to the closing one.
/// What is bounded spells each character in one way (append_json_character), so that texts and
/// strings correspond; a string without bounds may use every escape of JSON, surrogates in pairs.
class StringLevels {
 public:
  explicit StringLevels(AutomatonBuilder& builder) : builder_(builder) {}
  State any();
  State of_length(uint64_t least, std::optional<uint64_t> most);
  State of(const CodeAutomaton& automaton);
  /// These texts, of which there may be many.
  State one_of(std::vector<std::string> texts);

 private:
  void add_character(State from, const CodeSet& codes, State to);
  void add_any_escape(State from, State to);
  State escape(uint64_t specials, State to);

  AutomatonBuilder& builder_;
  std::optional<State> any_;
  std::map<std::pair<uint64_t, std::optional<uint64_t>>, State> of_length_;
  std::map<std::pair<uint64_t, State>, State> escapes_;  // behind a backslash
};

/// Adds texts as a trie, so that of many few are read at once; `close`: the byte that ends the
/// level behind them, or they lead to `to`. Must be sorted, without doubles.
void add_trie(AutomatonBuilder& builder, State from, std::span<const std::string> texts,
              std::optional<char> close, State to);

}  // namespace megalith::grammars
