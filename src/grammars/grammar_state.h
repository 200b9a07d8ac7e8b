// SPDX-License-Identifier: Apache-2.0
// One text that is being written under a grammar, token by token.
#pragma once

#include <memory>
#include <span>

#include "grammars/token_matcher.h"

namespace megalith::grammars {

/// A value: a copy goes its own way.
class GrammarState {
 public:
  /// The empty text. `begins_text`: the decoder has written nothing before it, so that tokens that
  /// add something else at the beginning of a text are not allowed first.
  explicit GrammarState(std::shared_ptr<TokenMatcher> matcher, bool begins_text = false)
      : matcher_(std::move(matcher)), stack_(matcher_->start()), begins_text_(begins_text) {}

  const TokenTrie& tokens() const { return matcher_->tokens(); }
  /// Overwrites `allowed` (mask_words(tokens().num_ids()) words): bit i for each token i that may
  /// come next. From the text so far every text of the grammar that begins with it can be reached,
  /// as far as the vocabulary has tokens for it: where no bit is set and can_end() is false, it
  /// lacks the next byte. UserError if the grammar is too ambiguous to be followed.
  void mask(std::span<uint64_t> allowed) const;
  /// Whether the text so far is one of the grammar.
  bool can_end() const { return stack_.size() == 1 && stack_.back()->can_end(); }
  /// Goes on by a token; false, without a change, if it may not come. UserError as of mask().
  bool accept(int32_t id);
  /// The levels that are open: JSON's objects, lists and strings.
  size_t depth() const { return stack_.size() - 1; }

 private:
  bool is_left_out(int32_t id) const;

  std::shared_ptr<TokenMatcher> matcher_;
  LevelStack stack_;
  bool begins_text_;
};

}  // namespace megalith::grammars
