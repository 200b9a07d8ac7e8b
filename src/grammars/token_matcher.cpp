// SPDX-License-Identifier: Apache-2.0
#include "grammars/token_matcher.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace megalith::grammars {

/// One walk through (a part of) a trie, depth first.
class TokenMatcher::Walk {
 public:
  Walk(LevelMachine& machine, const TokenTrie& tokens, const Trie& trie)
      : machine_(machine), tokens_(tokens), trie_(trie), path_(tokens.longest() + 1) {}

  /// The nodes from `begin` to `end`, whose depths are above `depth`. Tokens that may come are
  /// added to `allowed`; where the level below which there is none is closed, to `closings`.
  void run(uint32_t begin, uint32_t end, size_t depth, const LevelPtr& set, const Frame* below,
           std::span<uint64_t> allowed, std::vector<Closing>* closings) {
    path_[depth] = {set.get(), below, 0, 0};
    for (uint32_t node = begin; node < end;) {
      const Place& place = path_[trie_.depth[node] - 1U];
      if ((steps_ += place.set->num_ways()) > kMostSteps) fail_long();
      Place& next = path_[trie_.depth[node]];
      const uint8_t byte = trie_.byte[node];
      if (const LevelSet* step = machine_.remembered_step(*place.set, byte)) {
        next = {step, place.below, place.frames, place.sets};
      } else if (machine_.remembers_none(*place.set, byte) ||
                 !move(place, byte, next, node, closings)) {
        node = trie_.skip[node];
        continue;
      }
      tokens_.each_id(trie_.id[node], [&](int32_t id) {
        allowed[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      });
      ++node;
    }
    frames_.clear();
    sets_.clear();
  }

 private:
  [[noreturn]] static void fail_long() {
    throw UserError("the grammar is too ambiguous: what may come next takes more than {} steps",
                    kMostSteps);
  }
  /// Where the walk is at one depth, and how much of what it holds belongs to the way there.
  struct Place {
    const LevelSet* set;
    const Frame* below;
    size_t frames, sets;
  };

  bool move(const Place& place, uint8_t byte, Place& next, uint32_t node,
            std::vector<Closing>* closings) {
    frames_.resize(place.frames);
    sets_.resize(place.sets);
    Move move = machine_.move(*place.set, byte);
    const Frame* below = place.below;
    switch (move.kind) {
      case MoveKind::none:
        return false;
      case MoveKind::step:
        break;
      case MoveKind::open:
        frames_.push_back({std::move(move.waiting), below});
        below = &frames_.back();
        break;
      case MoveKind::close:
        if (below == nullptr) {
          MEGA_CHECK(closings != nullptr, "the lowest level was closed");
          closings->push_back({node, std::move(move.returns)});
          return false;
        }
        move.top = machine_.close(*below->set, *move.returns);
        below = below->below;
        break;
    }
    sets_.push_back(std::move(move.top));
    next = {sets_.back().get(), below, frames_.size(), sets_.size()};
    return true;
  }

  LevelMachine& machine_;
  const TokenTrie& tokens_;
  const Trie& trie_;
  size_t steps_ = 0;
  std::vector<Place> path_;  // by depth
  std::deque<Frame> frames_;
  std::vector<LevelPtr> sets_;  // keeps alive those that no machine remembers
};

TokenMatcher::TokenMatcher(Grammar grammar, std::shared_ptr<const TokenTrie> tokens,
                           const MatcherLimits& limits)
    : grammar_(std::move(grammar)),
      tokens_(std::move(tokens)),
      most_mask_bytes_(limits.mask_bytes),
      machine_(grammar_.shared_automaton(), limits.table_bytes) {}

std::shared_ptr<const TokenMatcher::SetMask> TokenMatcher::mask_of(const LevelPtr& set) {
  if (const auto found = masks_.find(set.get()); found != masks_.end()) return found->second;
  auto mask = std::make_shared<SetMask>();
  const size_t words = mask_words(tokens_->num_ids());
  mask->is_of_others = set->plain_run() == kPlainRun;
  if (mask->is_of_others) {
    const auto plain = tokens_->plain_tokens();
    mask->allowed.assign(plain.begin(), plain.end());
  } else {
    mask->allowed.assign(words, 0);
  }
  const Trie& trie = mask->is_of_others ? tokens_->others() : tokens_->all();
  Walk walk(machine_, *tokens_, trie);
  walk.run(0, static_cast<uint32_t>(trie.size()), 0, set, nullptr, mask->allowed, &mask->closings);
  if (!set->is_remembered()) return mask;
  if (mask_bytes_ > most_mask_bytes_) {
    masks_.clear();
    mask_bytes_ = 0;
  }
  mask_bytes_ += words * sizeof(uint64_t) + mask->closings.size() * sizeof(Closing) + 128;
  masks_.emplace(set.get(), mask);
  return mask;
}

void TokenMatcher::mask(const LevelStack& stack, std::span<uint64_t> allowed) {
  MEGA_CHECK_EQ(allowed.size(), mask_words(tokens_->num_ids()));
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const SetMask> top = mask_of(stack.back());
  for (size_t word = 0; word < allowed.size(); ++word) allowed[word] |= top->allowed[word];
  if (top->closings.empty()) return;
  // No token closes more levels than it has bytes.
  const size_t levels = std::min(stack.size() - 1, tokens_->longest());
  MEGA_CHECK(levels > 0, "the lowest level was closed");
  std::vector<Frame> frames(levels);  // from the lowest of them on
  for (size_t i = 0; i < levels; ++i)
    frames[i] = {stack[stack.size() - 1 - levels + i], i == 0 ? nullptr : &frames[i - 1]};
  const Frame& below = frames.back();
  const Trie& trie = top->is_of_others ? tokens_->others() : tokens_->all();
  Walk walk(machine_, *tokens_, trie);
  ReturnsPtr last;
  LevelPtr set;
  for (const auto& [node, returns] : top->closings) {
    if (returns != last) set = machine_.close(*below.set, *returns);
    last = returns;
    tokens_->each_id(trie.id[node], [&](int32_t id) {
      allowed[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    });
    walk.run(node + 1, trie.skip[node], trie.depth[node], set, below.below, allowed, nullptr);
  }
}

bool TokenMatcher::advance(LevelStack& stack, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  size_t kept = stack.size() - 1;  // of the stack, below what changes
  LevelStack above = {stack.back()};
  for (const char byte : bytes) {
    Move move = machine_.move(*above.back(), static_cast<uint8_t>(byte));
    if (move.kind == MoveKind::none) return false;
    above.pop_back();
    if (move.kind == MoveKind::open) above.push_back(std::move(move.waiting));
    if (move.kind == MoveKind::close) {
      MEGA_CHECK(kept + above.size() > 0, "the lowest level was closed");
      if (above.empty()) above.push_back(stack[--kept]);
      move.top = machine_.close(*above.back(), *move.returns);
      above.pop_back();
    }
    above.push_back(std::move(move.top));
  }
  stack.resize(kept);
  std::ranges::move(above, std::back_inserter(stack));
  return true;
}

size_t TokenMatcher::remembered_bytes() {
  const std::lock_guard lock(mutex_);
  return machine_.table_bytes() + mask_bytes_;
}

}  // namespace megalith::grammars
