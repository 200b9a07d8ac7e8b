// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/level_machine.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::grammars {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

size_t hash_of(const std::vector<uint32_t>& words, bool waits) {
  size_t hash = waits ? 0x9E3779B97F4A7C15U : 0;
  for (const uint32_t word : words) hash = (hash ^ word) * 0x9FB21C651E98DF25U + (hash >> 31);
  return hash;
}

uint32_t code_of(MoveKind kind, uint32_t index) {
  return index == kNowhere ? 0 : index << 2 | static_cast<uint32_t>(kind);
}

}  // namespace

LevelMachine::LevelMachine(std::shared_ptr<const Automaton> automaton, size_t most_table_bytes)
    : automaton_(std::move(automaton)), ways_(*automaton_), most_table_bytes_(most_table_bytes) {
  const uint32_t none = 0;
  ways_.add(automaton_->start(), Parents(&none, 1));
  uint32_t index = kNowhere;
  start_ = keep(ways_.take(), false, index);
}

/// The set with these ways: the one that is remembered, or a new one, which is if there is room.
LevelPtr LevelMachine::keep(std::vector<uint32_t> words, bool waits, uint32_t& index) {
  const size_t hash = hash_of(words, waits);
  for (auto [at, end] = set_of_hash_.equal_range(hash); at != end; ++at) {
    if (waits_[at->second] == waits && sets_[at->second]->words() == words) {
      index = at->second;
      return sets_[index];
    }
  }
  const auto set = std::make_shared<LevelSet>(*automaton_, std::move(words));
  index = kNowhere;
  if (table_bytes_ > most_table_bytes_) return set;
  if (!waits) set->moves_.assign(static_cast<size_t>(automaton_->num_classes()), kUnknown);
  set->is_remembered_ = true;
  table_bytes_ += set->bytes();
  index = static_cast<uint32_t>(sets_.size());
  sets_.push_back(set);
  waits_.push_back(waits);
  set_of_hash_.emplace(hash, index);
  return set;
}

ReturnsPtr LevelMachine::keep_returns(std::vector<uint32_t> ways) {
  if (const auto found = returns_.find(ways); found != returns_.end()) return found->second;
  const auto returns = std::make_shared<Returns>(Returns{std::move(ways), std::nullopt});
  if (table_bytes_ > most_table_bytes_) return returns;
  returns->number = static_cast<uint32_t>(returns_by_number_.size());
  table_bytes_ += 160 + 2 * returns->ways.size() * sizeof(uint32_t);
  returns_.emplace(returns->ways, returns);
  returns_by_number_.push_back(returns);
  return returns;
}

Move LevelMachine::move(const LevelSet& set, uint8_t byte) {
  if (set.moves_.empty()) return compute(set, byte).move;
  uint32_t& code = set.moves_[static_cast<size_t>(automaton_->class_of(byte))];
  const uint32_t index = code >> 2;
  if (code == kUnknown) {
    Computed computed = compute(set, byte);
    code = computed.code;
    return std::move(computed.move);
  }
  switch (static_cast<MoveKind>(code & 3)) {
    case MoveKind::none:
      return {};
    case MoveKind::step:
      return {MoveKind::step, sets_[index], nullptr, nullptr};
    case MoveKind::open:
      return {MoveKind::open, opened_[index].top, opened_[index].waiting, nullptr};
    case MoveKind::close:
      return {MoveKind::close, nullptr, nullptr, returns_by_number_[index]};
  }
  MEGA_CHECK(false, "no kind of move");
  return {};
}

LevelMachine::Computed LevelMachine::compute(const LevelSet& set, uint8_t byte) {
  std::vector<Opening> openings;
  std::vector<uint32_t> closed;
  bool steps = false;
  ways_.clear();
  set.each_way([&](State state, Parents parents) {
    for (const Edge& edge : automaton_->edges(state)) {
      if (edge.kind == EdgeKind::epsilon || byte < edge.first || byte > edge.last) continue;
      if (edge.kind == EdgeKind::bytes) {
        ways_.add(edge.target, parents);
        steps = true;
      } else if (edge.kind == EdgeKind::open) {
        openings.push_back({edge.target, parents, edge.callee});
        if (openings.size() > kMostWays) fail_ambiguous();
      } else {
        closed.insert(closed.end(), parents.begin(), parents.end());
      }
    }
  });
  MEGA_CHECK(int{steps} + int{!openings.empty()} + int{!closed.empty()} <= 1,
             "byte {} does not do one thing to a level", byte);
  Computed computed{{}, kNone};
  if (!openings.empty()) return open(std::move(openings));
  if (!closed.empty()) {
    std::ranges::sort(closed);
    closed.erase(std::unique(closed.begin(), closed.end()), closed.end());
    computed.move.kind = MoveKind::close;
    computed.move.returns = keep_returns(std::move(closed));
    const uint32_t number = computed.move.returns->number.value_or(kNowhere);
    computed.code = code_of(MoveKind::close, number);
  } else if (steps) {
    uint32_t index = kNowhere;
    computed.move.kind = MoveKind::step;
    computed.move.top = keep(ways_.take(), false, index);
    computed.code = code_of(MoveKind::step, index);
  }
  return computed;
}

LevelMachine::Computed LevelMachine::open(std::vector<Opening> openings) {
  const auto order = [](const Opening& a, const Opening& b) {
    if (a.target != b.target) return a.target < b.target;
    return std::ranges::lexicographical_compare(a.parents, b.parents);
  };
  std::ranges::sort(openings, order);
  std::vector<uint32_t> waiting;
  uint32_t place = 0;  // of the way that waits
  for (size_t i = 0; i < openings.size(); ++i) {
    const auto& [target, parents, callee] = openings[i];
    if (i == 0 || order(openings[i - 1], openings[i])) {
      waiting.push_back(target);
      waiting.push_back(static_cast<uint32_t>(parents.size()));
      waiting.insert(waiting.end(), parents.begin(), parents.end());
      place += i == 0 ? 0 : 1;
      if (waiting.size() > 2 * kMostWays) fail_ambiguous();
    }
    ways_.add(callee, Parents(&place, 1));
  }
  uint32_t below = kNowhere, above = kNowhere;
  Computed computed{{MoveKind::open, nullptr, nullptr, nullptr}, kUnknown};
  computed.move.top = keep(ways_.take(), false, above);
  computed.move.waiting = keep(std::move(waiting), true, below);
  if (below == kNowhere || above == kNowhere) return computed;
  computed.code = code_of(MoveKind::open, static_cast<uint32_t>(opened_.size()));
  opened_.push_back({computed.move.top, computed.move.waiting});
  return computed;
}

LevelPtr LevelMachine::close(const LevelSet& waiting, const Returns& returns) {
  const bool remembers = waiting.is_remembered() && returns.number.has_value();
  if (remembers) {
    const auto found = waiting.returns_moves_.find(*returns.number);
    if (found != waiting.returns_moves_.end()) return sets_[found->second];
  }
  ways_.clear();
  uint32_t place = 0;
  auto next = returns.ways.begin();
  waiting.each_way([&](State state, Parents parents) {
    if (next == returns.ways.end() || *next != place++) return;
    ways_.add(state, parents);
    ++next;
  });
  MEGA_CHECK(next == returns.ways.end(), "a level returns to no way");
  uint32_t index = kNowhere;
  LevelPtr set = keep(ways_.take(), false, index);
  if (remembers && index != kNowhere) {
    waiting.returns_moves_.emplace(*returns.number, index);
    table_bytes_ += 64;
  }
  return set;
}

}  // namespace megalith::grammars
