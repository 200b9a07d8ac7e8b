// SPDX-License-Identifier: Apache-2.0
// Steps from set to set (level_set.h), remembered as they are first taken: a deterministic machine
// that is built only where texts go. What it remembers is bounded; beyond the bound steps are
// computed anew each time, with the same result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar_automata/level_set.h"

namespace megalith::grammars {

/// To which ways of the waiting set a closed level returns.
struct Returns {
  std::vector<uint32_t> ways;      // ascending
  std::optional<uint32_t> number;  // of those that are remembered
};
using ReturnsPtr = std::shared_ptr<const Returns>;

enum class MoveKind : uint8_t { none, step, open, close };

struct Move {
  MoveKind kind = MoveKind::none;
  LevelPtr top;        // step: in place of the set; open: the set above `waiting`
  LevelPtr waiting;    // open: in place of the set
  ReturnsPtr returns;  // close: for LevelMachine::close of the set below
};

/// Not for several threads at once; the sets that it gives are immutable to others.
class LevelMachine {
 public:
  static constexpr size_t kMostTableBytes = size_t{32} << 20;

  /// `most_table_bytes`: what it remembers at most.
  explicit LevelMachine(std::shared_ptr<const Automaton> automaton,
                        size_t most_table_bytes = kMostTableBytes);
  const Automaton& automaton() const { return *automaton_; }

  /// The stack of the empty text, which has one set.
  LevelPtr start() const { return start_; }
  /// What a byte does to the set on top. UserError if the grammar is too ambiguous.
  Move move(const LevelSet& set, uint8_t byte);
  /// What becomes of a waiting set when the level above it has been closed.
  LevelPtr close(const LevelSet& waiting, const Returns& returns);
  /// The result of a step that is remembered, or null.
  const LevelSet* remembered_step(const LevelSet& set, uint8_t byte) const {
    if (set.moves_.empty()) return nullptr;
    const uint32_t code = set.moves_[static_cast<size_t>(automaton_->class_of(byte))];
    return (code & 3) == static_cast<uint32_t>(MoveKind::step) ? sets_[code >> 2].get() : nullptr;
  }
  bool remembers_none(const LevelSet& set, uint8_t byte) const {
    return !set.moves_.empty() &&
           set.moves_[static_cast<size_t>(automaton_->class_of(byte))] == kNone;
  }
  size_t table_bytes() const { return table_bytes_; }
  size_t num_sets() const { return sets_.size(); }

 private:
  // A remembered move: its kind in the lowest two bits, above them where its result is.
  static constexpr uint32_t kUnknown = 0, kNone = 4;
  struct Opened {
    LevelPtr top, waiting;
  };
  struct Computed {
    Move move;
    uint32_t code = kUnknown;
  };
  /// A way that opens a level: where it goes on behind it, its parents, where the level begins.
  struct Opening {
    State target;
    Parents parents;
    State callee;
  };
  Computed compute(const LevelSet& set, uint8_t byte);
  Computed open(std::vector<Opening> openings);
  LevelPtr keep(std::vector<uint32_t> words, bool waits, uint32_t& index);
  ReturnsPtr keep_returns(std::vector<uint32_t> ways);

  std::shared_ptr<const Automaton> automaton_;
  WayCollector ways_;
  LevelPtr start_;
  std::vector<LevelPtr> sets_;
  std::unordered_multimap<size_t, uint32_t> set_of_hash_;
  std::vector<bool> waits_;  // by set
  std::vector<Opened> opened_;
  std::map<std::vector<uint32_t>, ReturnsPtr> returns_;
  std::vector<ReturnsPtr> returns_by_number_;
  size_t most_table_bytes_;
  size_t table_bytes_ = 0;
};

}  // namespace megalith::grammars
