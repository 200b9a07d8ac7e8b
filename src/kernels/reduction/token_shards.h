// SPDX-License-Identifier: Apache-2.0
// Sums over tokens (gradients of biases and of norm parameters) must not depend on how a step's
// tokens are spread over micro-batches or, with sequence parallelism, over ranks. So such a
// gradient is kept as `count` partial rows [P, ...]. Token row r, in the step's order, belongs to
// partial
//   (r / rows_per_shard) % count
// and each partial is one chain of additions in increasing r that continues from the stored value.
// A rank holds whole shards; the tree over P comes afterwards (tree_sum.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace megalith::kernels {

struct TokenShards {
  int64_t rows_per_shard = 1;
  int count = 1;          // P
  int64_t first_row = 0;  // number of the call's row 0

  /// The partial that row t of the call belongs to.
  int partial_of(int64_t t) const {
    return static_cast<int>((first_row + t) / rows_per_shard % count);
  }
  /// One past the last of the consecutive rows, from t on, that share a partial; at most `end`.
  int64_t run_end(int64_t t, int64_t end) const {
    if (count == 1) return end;
    return std::min(end, ((first_row + t) / rows_per_shard + 1) * rows_per_shard - first_row);
  }
  void check() const {
    MEGA_CHECK(rows_per_shard >= 1 && count >= 1 && first_row >= 0,
               "{} partials of {} rows from row {}", count, rows_per_shard, first_row);
  }
};

}  // namespace megalith::kernels
