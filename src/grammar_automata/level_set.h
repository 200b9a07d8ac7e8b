// SPDX-License-Identifier: Apache-2.0
// All ways of reading a text, as one stack of sets. The set on top has the states that the
// automaton may be in within the innermost open level; each with its parents, the ways in the set
// below that may have opened the level. A set below waits: its ways go on once the level above is
// closed. The text determines the stack, so that its sets can be remembered by what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "grammar_automata/automaton.h"

namespace megalith::grammars {

/// Numbers of ways in the set below, ascending.
using Parents = std::span<const uint32_t>;

/// The largest set, in states and parents together. What would need more is refused: with this
/// bound on a byte's cost no grammar can hold up a server.
inline constexpr size_t kMostWays = 4096;
[[noreturn]] void fail_ambiguous();

class LevelSet {
 public:
  /// Of each way, in ascending order: state, number of parents, parents. On top no two have one
  /// state.
  LevelSet(const Automaton& automaton, std::vector<uint32_t> words);

  size_t num_ways() const { return num_ways_; }
  /// Calls `visit(state, parents)` for each way.
  template <typename Visit>
  void each_way(const Visit& visit) const {
    for (size_t at = 0; at < words_.size(); at += 2 + words_[at + 1])
      visit(words_[at], Parents(words_).subspan(at + 2, words_[at + 1]));
  }
  const std::vector<uint32_t>& words() const { return words_; }
  /// Whether the whole text may end here (only of the lowest level).
  bool can_end() const { return can_end_; }
  /// See Automaton::plain_run.
  int plain_run() const { return plain_run_; }
  /// Whether a machine remembers it, and so keeps it.
  bool is_remembered() const { return is_remembered_; }
  size_t bytes() const;

 private:
  friend class LevelMachine;
  std::vector<uint32_t> words_;
  size_t num_ways_ = 0;
  bool can_end_ = false;
  bool is_remembered_ = false;
  int plain_run_ = 0;
  // What a machine remembers of it.
  mutable std::vector<uint32_t> moves_;                 // by class
  mutable std::map<uint32_t, uint32_t> returns_moves_;  // of a waiting set, by returns
};
using LevelPtr = std::shared_ptr<const LevelSet>;

/// Gathers the ways of a set on top: where they go on, edges without a byte followed.
class WayCollector {
 public:
  explicit WayCollector(const Automaton& automaton)
      : automaton_(automaton), place_(automaton.num_states(), 0) {}
  /// A way to this state. UserError if there are too many.
  void add(State state, Parents parents);
  /// The words of the set, and begins anew.
  std::vector<uint32_t> take();
  /// Begins anew.
  void clear();

 private:
  struct Found {
    State state;
    uint32_t begin, count;  // of its parents
  };
  bool merge(Found& known, uint32_t begin, uint32_t count);

  const Automaton& automaton_;
  std::vector<uint32_t> place_;  // by state: behind its place among those found; 0: it is not
  std::vector<Found> found_;
  std::vector<uint32_t> parents_;
  std::vector<State> todo_;
  size_t size_ = 0;
};

}  // namespace megalith::grammars
