// SPDX-License-Identifier: Apache-2.0
// What a step needs to know about a whole tensor: the sum of squares (norms of gradients and
// parameters), and whether all of it is finite. Results stay on the device. Local; ready as of a
// later ticket.
#pragma once

#include "base/integer.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// Elements per partial sum.
inline constexpr int64_t kSquaresBlock = 16384;
/// Number of partial sums of n elements.
constexpr int64_t num_square_partials(int64_t n) { return (n + kSquaresBlock - 1) / kSquaresBlock; }

///   partials[b] = sum of x_i^2 over elements [b, b + 1) * 16384 of contiguous x
/// in f64, where squares of f32 are exact. Element i of a block goes to lane i % 16, a chain in
/// increasing i; the lanes combine as a tree (l with l + 8, + 4, + 2, + 1). Overwrites. x is f32,
/// bf16 or f16 (f64: reference).
struct SumOfSquares {
  ConstView x;
  View partials;  // f64 [num_square_partials(n)]
};
void sum_of_squares(Exec& exec, const SumOfSquares& arguments);

///   y[0] = x[0] + x[1] + ...
/// in f64, left to right from +0, or, when accumulating, from the stored y[0]. x is contiguous.
struct OrderedSum {
  ConstView x;  // f64 [n], n >= 0
  View y;       // f64 [1]
  bool accumulate = false;
};
void ordered_sum(Exec& exec, const OrderedSum& arguments);

/// flag[0] = 1 if every element of x is finite, else 0; when accumulating, a 0 stays 0. x is f32,
/// bf16, f16 or f64, contiguous. Elements of weight 0 do not count.
struct AllFinite {
  ConstView x;
  View flag;  // i32 [1]
  bool accumulate = false;
  ConstView weight = {};  // f32 [n]; absent: all count
};
void all_finite(Exec& exec, const AllFinite& arguments);

}  // namespace megalith::kernels
