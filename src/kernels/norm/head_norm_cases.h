// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts for tests and benches of norms of heads: fused query-key-value matrices whose
// query heads are normalised.
#pragma once

#include <cstdint>

namespace megalith::kernels {

struct HeadNormCase {
  int64_t rows, num_heads, num_kv_heads, head_size, partials;
  int64_t gap = 0;
  int64_t misaligned = 0;
};

/// No rows, heads of one element, tails of every kind, grouped heads, one to all heads per partial,
/// more rows than a block, more than one thread's worth.
inline constexpr HeadNormCase kHeadNormCases[] = {
    {0, 2, 2, 8, 1},      {1, 1, 1, 1, 1},         {3, 4, 2, 15, 4},  {5, 6, 2, 16, 3, 1, 1},
    {7, 3, 3, 17, 1, 3},  {11, 4, 1, 33, 2, 0, 1}, {2, 2, 2, 128, 2}, {101, 4, 2, 31, 2, 1},
    {37, 8, 2, 64, 8, 2}, {211, 3, 1, 129, 3}};

inline constexpr HeadNormCase kHeadNormBenchCases[] = {{1024, 12, 12, 64, 1},
                                                       {4096, 32, 8, 128, 8}};

}  // namespace megalith::kernels
