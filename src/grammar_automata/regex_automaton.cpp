// SPDX-License-Identifier: Apache-2.0
// Expressions to automata: Thompson's construction, then sets of its states.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/one_line.h"
#include "grammar_automata/code_automaton.h"
#include "grammar_automata/regex_syntax.h"

namespace megalith::grammars {
namespace {

enum class Step : uint8_t { free, begin, end };  // without a character: always, or only there

struct RegexState {
  std::vector<std::pair<uint32_t, Step>> steps;
  const CodeSet* codes = nullptr;  // of the edge to the state behind this one
};

class Construction {
 public:
  Construction(const RegexTree& tree, std::string_view expression, bool anywhere,
               WorkBudget& budget)
      : tree_(tree), expression_(expression), budget_(budget) {
    const uint32_t first = add();
    if (anywhere) add_any(first);
    const uint32_t last = build(tree.root, first);
    final_ = add();
    step(last, final_);
    if (anywhere) add_any(final_);
  }

  CodeAutomaton determinise();

 private:
  using Set = std::vector<uint32_t>;

  [[noreturn]] void fail(const char* what, size_t most) const {
    throw UserError("expression '{}' is too large: it needs more than {} {}",
                    one_line(expression_, 200), most, what);
  }
  uint32_t add() {
    if (states_.size() == kMostRegexStates) fail("states", kMostRegexStates);
    states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }
  void step(uint32_t from, uint32_t to, Step when = Step::free) {
    states_[from].steps.emplace_back(to, when);
  }
  /// An edge for a character; its end is the next state.
  uint32_t add_codes(uint32_t from, const CodeSet& codes) {
    const uint32_t begin = add(), end = add();
    step(from, begin);
    states_[begin].codes = &codes;
    return end;
  }
  void add_any(uint32_t state) {
    static const CodeSet all = CodeSet::all();
    step(add_codes(state, all), state);
  }
  uint32_t build(uint32_t index, uint32_t from);
  uint32_t build_repeat(const RegexNode& node, uint32_t from);
  Set closure(const Set& seeds, bool at_begin, bool at_end);
  std::map<Set, std::vector<CodeRange>> targets_of(const Set& set);

  const RegexTree& tree_;
  std::string_view expression_;
  std::vector<RegexState> states_;
  uint32_t final_ = 0;
  std::vector<uint32_t> seen_;  // by state: in which closure last
  uint32_t closures_ = 0;
  WorkBudget& budget_;
};

/// The state behind what the node matches.
uint32_t Construction::build(uint32_t index, uint32_t from) {
  const RegexNode& node = tree_.nodes[index];
  const uint32_t begin = add();  // also what bounds the time
  step(from, begin);
  switch (node.kind) {
    case RegexKind::codes:
      return add_codes(begin, node.codes);
    case RegexKind::sequence: {
      uint32_t at = begin;
      for (const uint32_t child : node.children) at = build(child, at);
      return at;
    }
    case RegexKind::alternatives: {
      const uint32_t end = add();
      for (const uint32_t child : node.children) step(build(child, begin), end);
      return end;
    }
    case RegexKind::repeat:
      return build_repeat(node, begin);
    case RegexKind::begin:
    case RegexKind::end:
      break;
  }
  const uint32_t end = add();
  step(begin, end, node.kind == RegexKind::begin ? Step::begin : Step::end);
  return end;
}

uint32_t Construction::build_repeat(const RegexNode& node, uint32_t from) {
  for (uint32_t i = 0; i < node.least; ++i) from = build(node.children[0], from);
  if (!node.most) {
    const uint32_t loop = add();
    step(from, loop);
    step(build(node.children[0], loop), loop);
    return loop;
  }
  const uint32_t end = add();
  step(from, end);
  for (uint32_t i = node.least; i < *node.most; ++i) {
    from = build(node.children[0], from);
    step(from, end);
  }
  return end;
}

/// The states that matter of those reached without a character, ascending.
Construction::Set Construction::closure(const Set& seeds, bool at_begin, bool at_end) {
  seen_.resize(states_.size(), 0);
  ++closures_;
  Set todo, found;
  const auto find = [&](uint32_t state) {
    if (seen_[state] == closures_) return;
    seen_[state] = closures_;
    todo.push_back(state);
  };
  for (const uint32_t seed : seeds) find(seed);
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    const RegexState& state = states_[at];
    bool matters = state.codes != nullptr || at == final_;
    for (const auto& [to, when] : state.steps) {
      matters |= when == Step::end;
      if (when == Step::free || (when == Step::begin ? at_begin : at_end)) find(to);
    }
    if (matters) found.push_back(at);
    budget_.spend(1 + state.steps.size());
  }
  std::ranges::sort(found);
  return found;
}

/// Which characters lead to which states.
std::map<Construction::Set, std::vector<CodeRange>> Construction::targets_of(const Set& set) {
  std::map<uint32_t, std::vector<int64_t>> changes;  // by code: +state + 1 begins, -state - 1 ends
  for (const uint32_t state : set) {
    if (states_[state].codes == nullptr) continue;
    const int64_t target = int64_t{state} + 1;
    for (const CodeRange& range : states_[state].codes->ranges()) {
      changes[range.first].push_back(target + 1);
      changes[range.last + 1].push_back(-target - 1);
    }
    budget_.spend(4 * states_[state].codes->ranges().size());
  }
  std::map<Set, std::vector<CodeRange>> targets;
  std::map<uint32_t, int> open;  // a set may be met by two ranges that touch
  uint32_t begin = 0;
  for (const auto& [code, turns] : changes) {
    if (!open.empty()) {
      Set key;
      for (const auto& [target, count] : open) key.push_back(target);
      budget_.spend(2 + key.size());
      targets[std::move(key)].push_back({begin, code - 1});
    }
    for (const int64_t turn : turns) {
      const auto target = static_cast<uint32_t>((turn > 0 ? turn : -turn) - 1);
      int& count = open[target];
      count += turn > 0 ? 1 : -1;
      if (count == 0) open.erase(target);
    }
    begin = code;
  }
  return targets;
}

CodeAutomaton Construction::determinise() {
  CodeAutomaton automaton;
  std::map<std::pair<Set, bool>, uint32_t> numbers;
  std::vector<std::pair<Set, bool>> sets;
  const auto number_of = [&](Set set, bool at_begin) {
    const auto [found, is_new] =
        numbers.try_emplace({std::move(set), at_begin}, static_cast<uint32_t>(sets.size()));
    if (is_new) {
      if (sets.size() == kMostCodeStates) fail("deterministic states", kMostCodeStates);
      sets.push_back(found->first);
      automaton.nodes.emplace_back();
    }
    return found->second;
  };
  number_of(closure({0}, true, false), true);
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto [set, at_begin] = sets[i];
    automaton.nodes[i].is_end = std::ranges::binary_search(closure(set, at_begin, true), final_);
    for (auto& [seeds, ranges] : targets_of(set)) {
      const uint32_t target = number_of(closure(seeds, false, false), false);
      automaton.nodes[i].edges.push_back({CodeSet(std::move(ranges)), target});
    }
  }
  trim(automaton);
  return automaton;
}

}  // namespace

CodeAutomaton compile_regex(std::string_view expression, bool anywhere, WorkBudget& budget) {
  const RegexTree tree = parse_regex(expression);
  return Construction(tree, expression, anywhere, budget).determinise();
}

}  // namespace megalith::grammars
