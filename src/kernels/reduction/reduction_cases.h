// SPDX-License-Identifier: Apache-2.0
// Sizes for tests and benches of reductions.
#pragma once

#include <cstdint>

#include "kernels/reduction/token_shards.h"

namespace megalith::kernels {

struct ColumnSumCase {
  int64_t rows, columns;
  TokenShards shards;
  int64_t gap = 0;
};
inline const ColumnSumCase kColumnSumCases[] = {{0, 5, {}},
                                                {1, 1, {}},
                                                {7, 17, {}, 1},
                                                {64, 257, {5, 3, 0}, 3},
                                                {303, 100, {16, 4, 9}},
                                                {129, 1031, {1, 2, 1}, 5}};

struct TreeSumCase {
  int64_t partials, columns;
  int64_t gap = 0;
};
inline constexpr TreeSumCase kTreeSumCases[] = {{1, 7},  {2, 1},   {3, 65, 1},    {4, 0},
                                                {5, 64}, {8, 300}, {13, 1000, 3}, {2, 20000}};

inline constexpr int64_t kNormSizes[] = {0, 1, 15, 17, 1000, 16383, 16384, 16385, 100003};

}  // namespace megalith::kernels
