// SPDX-License-Identifier: Apache-2.0
// Deterministic automata over characters: what an expression or a bound on a string's length is
// turned into, so that they can be intersected before the result becomes bytes. Making one
// deterministic may take exponentially many states; beyond a limit it is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar_automata/code_set.h"

namespace megalith::grammars {

struct CodeEdge {
  CodeSet codes;  // of the edges of a state disjoint
  uint32_t target;
};

/// State 0 is the first. From every state the end can be reached (but of an empty language, which
/// is one state without edges that is no end).
struct CodeAutomaton {
  struct Node {
    std::vector<CodeEdge> edges;
    bool is_end = false;
  };
  std::vector<Node> nodes;

  bool is_empty() const { return nodes.size() == 1 && !nodes[0].is_end && nodes[0].edges.empty(); }
};

inline constexpr size_t kMostRegexStates = 20'000;  // before it is made deterministic
inline constexpr size_t kMostCodeStates = 20'000;   // and behind

/// What building one grammar may cost, in steps of some ten nanoseconds.
class WorkBudget {
 public:
  static constexpr size_t kMostSteps = 8'000'000;
  /// UserError when it is used up.
  void spend(size_t steps);

 private:
  size_t spent_ = 0;
};

/// Of the texts that match from their beginning to their end, or, `anywhere`, of which some part
/// does (JSON Schema's `pattern`). UserError.
CodeAutomaton compile_regex(std::string_view expression, bool anywhere, WorkBudget& budget);
/// The texts of both. UserError.
CodeAutomaton intersect(const CodeAutomaton& a, const CodeAutomaton& b, WorkBudget& budget);
/// Its texts of `least` to `most` characters. UserError.
CodeAutomaton with_length(const CodeAutomaton& automaton, uint64_t least,
                          std::optional<uint64_t> most, WorkBudget& budget);
/// Removes what cannot reach the end.
void trim(CodeAutomaton& automaton);

}  // namespace megalith::grammars
