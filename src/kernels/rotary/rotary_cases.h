// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts for tests and benches of rotary embeddings: fused query-key-value matrices
// whose query heads are turned.
#pragma once

#include <cstdint>

namespace megalith::kernels {

struct RotaryCase {
  int64_t rows, num_heads, num_kv_heads, head_size, pairs;
  int64_t gap = 0;
  int64_t misaligned = 0;
};

/// No rows, one pair, odd heads, heads turned in part, tails of either vector, grouped heads, more
/// than one thread's worth, the largest table.
inline constexpr RotaryCase kRotaryCases[] = {
    {0, 2, 2, 8, 4},         {1, 1, 1, 2, 1},           {3, 2, 1, 7, 3},
    {5, 4, 2, 33, 16, 1, 1}, {7, 6, 2, 64, 17},         {61, 4, 4, 64, 32, 3},
    {2, 2, 1, 515, 256},     {211, 3, 3, 37, 11, 0, 1}, {97, 4, 1, 48, 24, 5}};

inline constexpr RotaryCase kRotaryBenchCases[] = {{1024, 12, 12, 64, 32}, {4096, 32, 8, 128, 64}};

}  // namespace megalith::kernels
