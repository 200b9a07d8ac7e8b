// SPDX-License-Identifier: Apache-2.0
#include "grammars/matcher_cache.h"

#include <algorithm>

#include "base/file.h"
#include "grammars/token_texts.h"

namespace megalith::grammars {

std::shared_ptr<TokenMatcher> MatcherCache::find(const std::string& key,
                                                 FunctionRef<Grammar()> build) {
  const std::string digest = sha256(std::as_bytes(std::span(key)));
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(entries_, digest, &Entry::digest);
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->matcher;
  }
  if (!make_room()) return nullptr;
  if (tokens_ == nullptr) tokens_ = token_trie(tokenizer_);
  entries_.push_front({digest, std::make_shared<TokenMatcher>(build(), tokens_, limits_.each)});
  return entries_.front().matcher;
}

/// For one more.
bool MatcherCache::make_room() {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.bytes();
  const auto has_room = [&] { return entries_.size() < limits_.grammars && bytes < limits_.bytes; };
  for (auto at = entries_.end(); at != entries_.begin() && !has_room();) {
    --at;
    if (at->matcher.use_count() > 1) continue;
    bytes -= at->bytes();
    at = entries_.erase(at);
  }
  return has_room();
}

size_t MatcherCache::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace megalith::grammars
