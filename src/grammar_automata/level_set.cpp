// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/level_set.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace megalith::grammars {

void fail_ambiguous() {
  throw UserError("the grammar is too ambiguous: one text may be read in more than {} ways",
                  kMostWays / 2);
}

LevelSet::LevelSet(const Automaton& automaton, std::vector<uint32_t> words)
    : words_(std::move(words)) {
  each_way([&](State state, Parents) {
    ++num_ways_;
    can_end_ |= state == automaton.end();
    plain_run_ = std::max<int>(plain_run_, automaton.plain_run(state));
  });
}

size_t LevelSet::bytes() const {
  return sizeof(LevelSet) + 64 + (moves_.capacity() + words_.capacity()) * sizeof(uint32_t);
}

/// Whether the way has gained parents.
bool WayCollector::merge(Found& known, uint32_t begin, uint32_t count) {
  const auto of = [&](uint32_t first, uint32_t length) {
    return Parents(parents_).subspan(first, length);
  };
  const Parents old = of(known.begin, known.count), more = of(begin, count);
  if (std::ranges::includes(old, more)) return false;
  std::vector<uint32_t> both;
  std::ranges::set_union(old, more, std::back_inserter(both));
  size_ += both.size() - known.count;
  known.begin = static_cast<uint32_t>(parents_.size());
  known.count = static_cast<uint32_t>(both.size());
  parents_.insert(parents_.end(), both.begin(), both.end());
  return true;
}

// A way that gains parents passes them on, so a state is met at most once for each of its parents.
void WayCollector::add(State first, Parents parents) {
  const auto begin = static_cast<uint32_t>(parents_.size());
  const auto count = static_cast<uint32_t>(parents.size());
  parents_.insert(parents_.end(), parents.begin(), parents.end());
  todo_.assign(1, first);
  while (!todo_.empty()) {
    const State state = todo_.back();
    todo_.pop_back();
    if (place_[state] == 0) {
      found_.push_back({state, begin, count});
      place_[state] = static_cast<uint32_t>(found_.size());
      size_ += 1 + count;
    } else if (!merge(found_[place_[state] - 1], begin, count)) {
      continue;
    }
    if (size_ > kMostWays) {
      clear();
      fail_ambiguous();
    }
    for (const Edge& edge : automaton_.edges(state))
      if (edge.kind == EdgeKind::epsilon) todo_.push_back(edge.target);
  }
}

std::vector<uint32_t> WayCollector::take() {
  std::ranges::sort(found_, {}, &Found::state);
  std::vector<uint32_t> words;
  for (const Found& way : found_) {
    if (!automaton_.may_rest(way.state)) continue;
    words.push_back(way.state);
    words.push_back(way.count);
    const auto begin = parents_.begin() + way.begin;
    words.insert(words.end(), begin, begin + way.count);
  }
  clear();
  return words;
}

void WayCollector::clear() {
  for (const Found& way : found_) place_[way.state] = 0;
  found_.clear();
  parents_.clear();
  size_ = 0;
}

}  // namespace megalith::grammars
