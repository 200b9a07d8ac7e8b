// SPDX-License-Identifier: Apache-2.0
#include "text_training/word_counts.h"

#include <xxhash.h>

#include "base/integer.h"

namespace megalith::text {

uint64_t WordCounts::hash_of(std::string_view word) {
  return XXH3_64bits(word.data(), word.size());
}

void WordCounts::add(std::string_view word, uint64_t hash, int64_t count) {
  if (words_.size() * 2 >= slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) {
      words_.push_back({bytes_.size(), hash, count, narrow<uint32_t>(word.size())});
      bytes_.append(word);
      slots_[slot] = narrow<uint32_t>(words_.size());
      return;
    }
    Word& known = words_[slots_[slot] - 1];
    if (known.hash == hash && this->word(slots_[slot] - 1) == word) {
      known.count += count;
      return;
    }
  }
}

void WordCounts::clear() {
  words_.clear();
  bytes_.clear();
  slots_.assign(slots_.size(), 0);
}

void WordCounts::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < words_.size(); ++i) {
    size_t slot = words_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace megalith::text
