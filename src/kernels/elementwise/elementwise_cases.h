// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts for tests and benches of element-wise operations.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace megalith::kernels {

struct ElementwiseCase {
  int64_t rows, columns;
  int64_t gap = 0;         // elements between a row's end and the next one's start
  int64_t misaligned = 0;  // elements before the first
};

/// Prime, one, empty, odd tails, misaligned starts, strides, more than one thread's worth.
inline constexpr ElementwiseCase kElementwiseCases[] = {
    {0, 5},     {5, 0},      {1, 1},          {1, 7},           {3, 16},      {7, 31, 1, 1},
    {5, 64, 0}, {13, 71, 3}, {64, 257, 7, 3}, {1, 20011, 0, 1}, {301, 83, 0}, {53, 331, 5, 2}};

inline constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};

/// Benches: rows of a training step's activations.
inline constexpr ElementwiseCase kElementwiseBenchCases[] = {{4096, 768}, {4096, 3072}};

}  // namespace megalith::kernels
