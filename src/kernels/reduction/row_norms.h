// SPDX-License-Identifier: Apache-2.0
// L2 norms of the rows of a matrix whose other columns other ranks may hold: sums of squares and,
// once those are complete, square roots and quotients. Local; results are ready as of a later
// ticket.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

///   y_t = sum over i of x_ti^2
/// of each of `k_shards` equal shards in f64, where squares of f32 are exact; the shards' sums
/// combine in the tree of linear.h. simd sums a shard in the lanes of sum_of_squares (norms.h) and
/// rounds it to f32 before the tree; the reference sums in order and rounds y alone. y is
/// overwritten.
struct RowSquares {
  ConstView x_TI;    // f32, bf16 or f16 (f64: reference), any row stride
  View y_T;          // f32 (f64)
  int k_shards = 1;  // divides I
};
void row_squares(Exec& exec, const RowSquares& arguments);

/// x = sqrt(x), in place. f32 or f64, contiguous.
void square_roots(Exec& exec, View x);

/// y = a / b, and 0 where b is 0. f32 or f64, contiguous and all alike; y may be a or b.
void divide(Exec& exec, ConstView a, ConstView b, View y);

}  // namespace megalith::kernels
