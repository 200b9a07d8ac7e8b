// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/code_automaton.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace megalith::grammars {
namespace {

/// Numbers what is reached first; an automaton is built by asking for states as they are needed.
template <typename Key>
class StateNumbers {
 public:
  uint32_t of(const Key& key, CodeAutomaton& automaton) {
    const auto [found, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
    if (is_new) {
      if (keys_.size() == kMostCodeStates)
        throw UserError("the grammar is too large: what a string may be needs more than {} states",
                        kMostCodeStates);
      keys_.push_back(key);
      automaton.nodes.emplace_back();
    }
    return found->second;
  }
  size_t size() const { return keys_.size(); }
  Key key(size_t number) const { return keys_[number]; }

 private:
  std::map<Key, uint32_t> numbers_;
  std::vector<Key> keys_;
};

}  // namespace

void WorkBudget::spend(size_t steps) {
  spent_ += steps;
  if (spent_ > kMostSteps)
    throw UserError("the grammar is too large: building it takes more than {} steps", kMostSteps);
}

void trim(CodeAutomaton& automaton) {
  auto& nodes = automaton.nodes;
  std::vector<std::vector<uint32_t>> sources(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i)
    for (const CodeEdge& edge : nodes[i].edges) sources[edge.target].push_back(i);
  std::vector<bool> lives(nodes.size(), false);
  std::vector<uint32_t> todo;
  const auto find = [&](uint32_t node) {
    if (lives[node]) return;
    lives[node] = true;
    todo.push_back(node);
  };
  for (uint32_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].is_end) find(i);
  while (!todo.empty()) {
    const uint32_t node = todo.back();
    todo.pop_back();
    for (const uint32_t source : sources[node]) find(source);
  }
  std::vector<uint32_t> number(nodes.size(), 0);
  std::vector<CodeAutomaton::Node> kept;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (!lives[i] && i > 0) continue;
    number[i] = static_cast<uint32_t>(kept.size());
    std::erase_if(nodes[i].edges, [&](const CodeEdge& edge) { return !lives[edge.target]; });
    kept.push_back(std::move(nodes[i]));
  }
  for (auto& node : kept)
    for (CodeEdge& edge : node.edges) edge.target = number[edge.target];
  nodes = std::move(kept);
}

CodeAutomaton intersect(const CodeAutomaton& a, const CodeAutomaton& b, WorkBudget& budget) {
  CodeAutomaton both;
  StateNumbers<std::pair<uint32_t, uint32_t>> numbers;
  numbers.of({0, 0}, both);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [x, y] = numbers.key(i);
    both.nodes[i].is_end = a.nodes[x].is_end && b.nodes[y].is_end;
    for (const CodeEdge& p : a.nodes[x].edges) {
      for (const CodeEdge& q : b.nodes[y].edges) {
        budget.spend(2 + p.codes.ranges().size() + q.codes.ranges().size());
        CodeSet codes = p.codes.intersected(q.codes);
        if (codes.empty()) continue;
        const uint32_t target = numbers.of({p.target, q.target}, both);
        both.nodes[i].edges.push_back({std::move(codes), target});
      }
    }
  }
  trim(both);
  return both;
}

CodeAutomaton with_length(const CodeAutomaton& automaton, uint64_t least,
                          std::optional<uint64_t> most, WorkBudget& budget) {
  CodeAutomaton counted;
  StateNumbers<std::pair<uint32_t, uint64_t>> numbers;
  numbers.of({0, 0}, counted);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [state, length] = numbers.key(i);
    counted.nodes[i].is_end = automaton.nodes[state].is_end && length >= least;
    if (most && length == *most) continue;
    const uint64_t next = most ? length + 1 : std::min(length + 1, least);
    for (const CodeEdge& edge : automaton.nodes[state].edges) {
      budget.spend(2 + edge.codes.ranges().size());
      const uint32_t target = numbers.of({edge.target, next}, counted);
      counted.nodes[i].edges.push_back({edge.codes, target});
    }
  }
  trim(counted);
  return counted;
}

}  // namespace megalith::grammars
