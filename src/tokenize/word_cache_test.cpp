// SPDX-License-Identifier: Apache-2.0
#include "tokenize/word_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace megalith::tokenize {
namespace {

using Ids = std::vector<int32_t>;

TEST(WordCache, KeysTellWordsApartAndEntriesComeBack) {
  WordCache cache(64);
  const std::string text(64, 'a');
  for (size_t size = 1; size <= WordCache::kMaxBytes; ++size) {
    const Ids ids(1 + size % WordCache::kMaxIds, static_cast<int32_t>(size));
    const WordCache::Key near_end =
        WordCache::make_key(text.data() + 64 - size, size, text.data() + 64);
    const WordCache::Key key = WordCache::make_key(text.data(), size, text.data() + 64);
    EXPECT_EQ(near_end.part, key.part);  // however it was read
    EXPECT_EQ(cache.find(key), nullptr);
    cache.insert(key, ids.data(), ids.size());
    const WordCache::Entry* entry = cache.find(key);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->num_ids(), ids.size());
    EXPECT_EQ(Ids(entry->ids.begin(), entry->ids.begin() + static_cast<ptrdiff_t>(ids.size())),
              ids);
  }
}

}  // namespace
}  // namespace megalith::tokenize
