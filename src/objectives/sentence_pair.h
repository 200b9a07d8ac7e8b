// SPDX-License-Identifier: Apache-2.0
// A pair of stretches of text that a model is asked about (Devlin et al. 2019, section 3.1; Lan et
// al. 2020, section 3.1): [CLS] A [SEP] B [SEP]. The sentences of a row are parted before one of
// them; in half of all pairs that is all (label 0). In the others (label 1)
//   next    B is text of another document
//   order   A and B change places
// A pair that is longer than its row wants loses tokens at the ends of its longer side (B, of equal
// ones), front or back by a draw each.
//
// All of it is a function of the row and one key. Block 0 draws where the row is parted (word 0),
// the label (1) and the other row (2); word t % 4 of block t / 4 under a counter of its own draws
// the end that token number t is taken from.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "math/random.h"

namespace megalith::objectives {

enum class PairRelation : uint8_t { next, order };

struct SentencePair {
  Range a, b;  // tokens of a corpus
  int32_t label = 0;
  int64_t size() const { return a.size() + b.size(); }
};

class PairDraws {
 public:
  explicit PairDraws(uint64_t key) : key_(key), block_(philox(key, 0, 0)) {}
  /// Of `sentences` >= 2: how many are of A, 1 to sentences - 1.
  int64_t parted(int64_t sentences) const { return 1 + scaled(block_[0], sentences - 1); }
  bool changed() const { return block_[1] < uint32_t{1} << 31; }
  /// One of `rows` < 2^32.
  int64_t other(int64_t rows) const { return scaled(block_[2], rows); }
  /// Cuts the pair down to `most` tokens.
  void cut(SentencePair& pair, int64_t most) const;

 private:
  static int64_t scaled(uint32_t word, int64_t count) {
    return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(count)) >> 32);
  }
  uint64_t key_;
  PhiloxBlock block_;
};

}  // namespace megalith::objectives
