// SPDX-License-Identifier: Apache-2.0
// Words already encoded: a fixed table of 64-byte entries (one cache line each), so memory is
// bounded and a hit costs one or two lines. It keeps words of up to 31 bytes with up to 8 ids; a
// word whose two places are both taken replaces the older one. English repeats itself so much that
// some 98 % of its words are hits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/huge_pages.h"

namespace megalith::tokenize {

namespace detail {
// Row n keeps the first n bytes of four integers.
constexpr std::array<std::array<uint64_t, 4>, 32> make_byte_masks() {
  std::array<std::array<uint64_t, 4>, 32> masks{};
  for (size_t size = 0; size < 32; ++size)
    for (size_t byte = 0; byte < size; ++byte)
      masks[size][byte / 8] |= uint64_t{0xFF} << (byte % 8 * 8);
  return masks;
}
inline constexpr std::array<std::array<uint64_t, 4>, 32> kByteMasks = make_byte_masks();
}  // namespace detail

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 31;
  static constexpr size_t kMaxIds = 8;

  /// A word as four integers: its bytes, zeros, and its length in the last byte.
  struct Key {
    std::array<uint64_t, 4> part;
  };
  struct alignas(64) Entry {
    std::array<uint64_t, 4> key{};  // Key, with (number of ids - 1) in the three highest bits
    std::array<int32_t, kMaxIds> ids{};
    size_t num_ids() const { return static_cast<size_t>(key[3] >> 61) + 1; }
  };

  explicit WordCache(size_t entries)
      : entries_(std::bit_ceil(std::max<size_t>(entries, 2))),
        shift_(64 - std::countr_zero(entries_.size())) {}

  /// `size` in 1..kMaxBytes. Reads 32 bytes at once if they lie before `readable_end`.
  static Key make_key(const char* word, size_t size, const char* readable_end) {
    static_assert(std::endian::native == std::endian::little);
    Key key{};
    if (readable_end - word >= 32) {
      std::memcpy(key.part.data(), word, 32);
      for (size_t i = 0; i < 4; ++i) key.part[i] &= detail::kByteMasks[size][i];
    } else {
      std::memcpy(key.part.data(), word, size);
    }
    key.part[3] |= uint64_t{size} << 56;
    return key;
  }

  /// The entry of the word, or null.
  const Entry* find(const Key& key) const {
    const size_t slot = slot_of(key);
    if (is_equal(entries_[slot], key)) return &entries_[slot];
    if (is_equal(entries_[slot ^ 1], key)) return &entries_[slot ^ 1];
    return nullptr;
  }

  /// Keeps the ids (1..kMaxIds of them) of a word that is not in the table.
  void insert(const Key& key, const int32_t* ids, size_t num_ids) {
    const size_t slot = slot_of(key);
    if (entries_[slot].key[3] != 0) entries_[slot ^ 1] = entries_[slot];
    Entry& entry = entries_[slot];
    entry.key = key.part;
    entry.key[3] |= uint64_t{num_ids - 1} << 61;
    std::copy_n(ids, num_ids, entry.ids.begin());
  }

 private:
  static constexpr uint64_t kWithoutCount = ~(uint64_t{7} << 61);

  static bool is_equal(const Entry& entry, const Key& key) {
    return ((entry.key[0] ^ key.part[0]) | (entry.key[1] ^ key.part[1]) |
            (entry.key[2] ^ key.part[2]) | ((entry.key[3] ^ key.part[3]) & kWithoutCount)) == 0;
  }
  size_t slot_of(const Key& key) const {
    uint64_t mixed = key.part[0] * 0x9E3779B97F4A7C15u ^
                     std::rotl(key.part[1] * 0xC2B2AE3D27D4EB4Fu, 23) ^
                     std::rotl(key.part[2] * 0x165667B19E3779F9u, 41) ^
                     std::rotl(key.part[3] * 0xFF51AFD7ED558CCDu, 11);
    mixed ^= mixed >> 32;
    return static_cast<size_t>((mixed * 0xD6E8FEB86659FD93u) >> shift_);
  }

  std::vector<Entry, HugePages<Entry>> entries_;
  int shift_;
};

}  // namespace megalith::tokenize
