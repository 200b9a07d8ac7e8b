// SPDX-License-Identifier: Apache-2.0
// Files hash to what xxHash's own program prints (xxhsum -H2), in whatever parts they come.
#include "base/file_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace megalith {
namespace {

std::string hash_of(std::string_view text) { return file_hash(std::as_bytes(std::span(text))); }

TEST(FileHash, is_xxh3_128) {
  EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of("a"), "a96faf705af16834e6c632b61e964e1f");
}

TEST(FileHash, parts_do_not_matter) {
  std::vector<std::byte> bytes(100'003);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  const std::string whole = file_hash(bytes);
  for (const size_t part : {1, 7, 64, 240, 241, 1024, 99'999}) {
    FileHash hash;
    for (size_t at = 0; at < bytes.size(); at += part)
      hash.update(bytes.data() + at, std::min(part, bytes.size() - at));
    EXPECT_EQ(hash.digest(), whole) << part;
  }
}

TEST(FileHash, a_digest_ends_nothing) {
  FileHash hash;
  hash.update("a", 1);
  EXPECT_EQ(hash.digest(), hash_of("a"));
  hash.update("b", 1);
  EXPECT_EQ(hash.digest(), hash_of("ab"));
}

}  // namespace
}  // namespace megalith
