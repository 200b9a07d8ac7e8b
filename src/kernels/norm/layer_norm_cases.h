// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts for tests and benches of norms.
#pragma once

#include <cstdint>

namespace megalith::kernels {

struct NormCase {
  int64_t rows, columns;
  int64_t gap = 0;
  int64_t misaligned = 0;
};

/// One column, tails of every kind, no rows, more rows than a block, more than one thread's worth.
inline constexpr NormCase kNormCases[] = {{0, 8},          {1, 1},        {3, 2},          {1, 15},
                                          {5, 16},         {7, 17, 1, 1}, {2, 31},         {33, 64},
                                          {67, 257, 5, 3}, {19, 1024},    {211, 333, 0, 2}};

inline constexpr NormCase kNormBenchCases[] = {{4096, 768}, {2048, 4096}};

}  // namespace megalith::kernels
