// SPDX-License-Identifier: Apache-2.0
// A grammar and a vocabulary together: which tokens may come next. What is found for a set on top
// of the stack is remembered with it, except of tokens that close its level: how those go on
// depends on the sets below and is looked up each time.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar_automata/level_machine.h"
#include "grammars/grammar.h"
#include "grammars/token_trie.h"

namespace megalith::grammars {

/// The stack of a text: waiting sets, and the set on top last.
using LevelStack = std::vector<LevelPtr>;

/// What a matcher remembers at most: of its machine, and of masks, which are forgotten beyond this.
struct MatcherLimits {
  size_t table_bytes = LevelMachine::kMostTableBytes;
  size_t mask_bytes = size_t{64} << 20;
};

/// Shared by all texts of one grammar and vocabulary; any number of threads may call it.
class TokenMatcher {
 public:
  /// A walk may take so many steps of ways. Where it would take more the grammar is refused,
  /// whatever is remembered: a third of a second, a hundred times what large grammars need.
  static constexpr size_t kMostSteps = size_t{1} << 24;

  TokenMatcher(Grammar grammar, std::shared_ptr<const TokenTrie> tokens,
               const MatcherLimits& limits = {});

  const TokenTrie& tokens() const { return *tokens_; }
  const Grammar& grammar() const { return grammar_; }
  LevelStack start() const { return {machine_.start()}; }
  /// Adds to `allowed` (mask_words(num_ids()) words) the tokens that may come next. UserError if
  /// the grammar is too ambiguous to be followed.
  void mask(const LevelStack& stack, std::span<uint64_t> allowed);
  /// Goes on by these bytes; false, without a change, if they do not fit. UserError, without a
  /// change, if the grammar is too ambiguous to be followed.
  bool advance(LevelStack& stack, std::string_view bytes);
  /// What is remembered now.
  size_t remembered_bytes();

 private:
  /// A place in a trie where the level is closed.
  struct Closing {
    uint32_t node;
    ReturnsPtr returns;
  };
  /// What may come as long as the level is open.
  struct SetMask {
    std::vector<uint64_t> allowed;
    std::vector<Closing> closings;
    bool is_of_others = false;  // nodes are those of TokenTrie::others
  };
  struct Frame {
    LevelPtr set;
    const Frame* below;
  };
  class Walk;

  std::shared_ptr<const SetMask> mask_of(const LevelPtr& set);

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> tokens_;
  size_t most_mask_bytes_;
  std::mutex mutex_;
  LevelMachine machine_;
  std::unordered_map<const LevelSet*, std::shared_ptr<const SetMask>> masks_;
  size_t mask_bytes_ = 0;
};

}  // namespace megalith::grammars
