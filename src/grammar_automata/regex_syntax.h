// SPDX-License-Identifier: Apache-2.0
// Regular expressions in ECMAScript's syntax with the `u` flag, as JSON Schema asks for: literals,
// `.`, classes, \d \w \s and their opposites, groups, alternatives, repetition, ^ and $. What a
// finite automaton cannot do or is not done here is refused by name: look-around, back references,
// word boundaries, \p, flags. Lazy repetition matches the same texts and is taken as plain.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar_automata/code_set.h"

namespace megalith::grammars {

enum class RegexKind : uint8_t {
  codes,         // one character of `codes`
  sequence,      // its children, one after another; none: the empty text
  alternatives,  // one of its children
  repeat,        // its only child from `least` to `most` times
  begin,         // ^
  end,           // $
};

struct RegexNode {
  RegexKind kind;
  CodeSet codes;
  std::vector<uint32_t> children;
  uint32_t least = 0;
  std::optional<uint32_t> most;  // none: without end
};

struct RegexTree {
  std::vector<RegexNode> nodes;
  uint32_t root = 0;
};

/// UserError with the offset of what is wrong or not supported.
RegexTree parse_regex(std::string_view expression);

}  // namespace megalith::grammars
