// SPDX-License-Identifier: Apache-2.0
// The least of many keys while single keys change: a tournament tree with eight children per node,
// each level one array. A change is carried up only as far as it changes a winner. Unlike a binary
// heap with stale entries it needs no removal, and for the window sizes of bpe_model.cpp it stays
// within the first-level cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace megalith::tokenize {

class Tournament {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};

  /// Begins with `size` keys, all kNever; set leaf(i) and then call build().
  void reset(size_t size) {
    levels_ = 0;
    size_t begin = 0;
    for (size_t count = size;; count = (count + 7) / 8) {
      begins_[levels_++] = begin;
      begin += (count + 7) / 8 * 8;
      if (count <= 8) break;
    }
    keys_.assign(begin, kNever);
  }
  uint64_t& leaf(size_t i) { return keys_[i]; }
  void build() {
    for (size_t level = 0; level + 1 < levels_; ++level)
      for (size_t group = 0; group < (begins_[level + 1] - begins_[level]) / 8; ++group)
        keys_[begins_[level + 1] + group] = least_of(begins_[level] + group * 8);
  }
  /// Carries a change of leaf(i) up.
  void refresh(size_t i) {
    for (size_t level = 0; level + 1 < levels_; ++level) {
      i /= 8;
      const uint64_t least = least_of(begins_[level] + i * 8);
      uint64_t& winner = keys_[begins_[level + 1] + i];
      if (winner == least) return;
      winner = least;
    }
  }
  /// The least key, kNever if all are.
  uint64_t top() const { return least_of(begins_[levels_ - 1]); }

 private:
  static constexpr size_t kMaxLevels = 22;  // 8^22 > 2^64

  uint64_t least_of(size_t begin) const {
    const uint64_t* k = keys_.data() + begin;
    const uint64_t a = std::min(k[0], k[1]), b = std::min(k[2], k[3]);
    const uint64_t c = std::min(k[4], k[5]), d = std::min(k[6], k[7]);
    return std::min(std::min(a, b), std::min(c, d));
  }

  std::vector<uint64_t> keys_;
  size_t begins_[kMaxLevels] = {};
  size_t levels_ = 0;
};

}  // namespace megalith::tokenize
