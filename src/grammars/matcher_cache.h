// SPDX-License-Identifier: Apache-2.0
// Matchers of one tokenizer by their grammars, for those that come again: many requests bear the
// same schema. Grammars come with requests and are not trusted, so what all of them take together
// is bounded.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/function_ref.h"
#include "grammars/token_matcher.h"
#include "text/tokenizer.h"

namespace megalith::grammars {

/// Any number of threads may call it.
class MatcherCache {
 public:
  struct Limits {
    size_t grammars = 64;              // in use, and kept for others, together
    size_t bytes = size_t{512} << 20;  // that these take when one more comes
    MatcherLimits each = {.table_bytes = size_t{8} << 20, .mask_bytes = size_t{8} << 20};
  };
  /// `tokenizer` must outlive it. Its trie is made with the first grammar.
  explicit MatcherCache(const text::Tokenizer& tokenizer) : MatcherCache(tokenizer, Limits()) {}
  MatcherCache(const text::Tokenizer& tokenizer, const Limits& limits)
      : tokenizer_(tokenizer), limits_(limits) {}

  /// The matcher of what `build` makes, which is called unless it is kept; `key` says all that
  /// `build` depends on. Grammars that nobody else holds make room for it, least recently asked for
  /// first; null where those in use leave none. What `build` throws; UserError of token_trie().
  std::shared_ptr<TokenMatcher> find(const std::string& key, FunctionRef<Grammar()> build);
  /// Grammars that are kept now, in use or not.
  size_t size();

 private:
  struct Entry {
    std::string digest;  // of the key
    std::shared_ptr<TokenMatcher> matcher;
    size_t bytes() const {
      return matcher->grammar().automaton().bytes() + matcher->remembered_bytes();
    }
  };
  bool make_room();

  const text::Tokenizer& tokenizer_;
  const Limits limits_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::list<Entry> entries_;  // first the one that was asked for last
};

}  // namespace megalith::grammars
