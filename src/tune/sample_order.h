// SPDX-License-Identifier: Apache-2.0
// The order of an epoch: every sample once, in each epoch another one.
#pragma once

#include "math/random.h"

namespace megalith::tune {

class SampleOrder {
 public:
  /// Without `shuffle` that of the samples.
  SampleOrder(uint64_t seed, bool shuffle)
      : key_(random_key(random_key(seed, "data order"), uint64_t{0})), shuffle_(shuffle) {}

  /// Which of `count` samples is sample n of a run. A function of the arguments alone.
  int64_t index_of(int64_t n, int64_t count) const {
    const int64_t place = n % count;
    if (!shuffle_) return place;
    const uint64_t key = random_key(key_, static_cast<uint64_t>(n / count));
    return static_cast<int64_t>(
        permute(key, static_cast<uint64_t>(count), static_cast<uint64_t>(place)));
  }

 private:
  uint64_t key_;
  bool shuffle_;
};

}  // namespace megalith::tune
