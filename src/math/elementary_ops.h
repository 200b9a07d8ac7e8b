// SPDX-License-Identifier: Apache-2.0
// The primitive operations that elementary.h is written in, for one float. A vector version (the
// kernels have one on Highway) offers the same static members with the same meaning per lane; then
// every function of elementary.h gives the same bits on both. What they mean:
//   - V holds binary32 numbers, I 32-bit integers of the same lanes (arithmetic wraps), M truth
//     values;
//   - add, sub, mul, div, sqrt, fma and fnma round once, to nearest, ties to even, and keep
//     subnormal numbers (flush-to-zero modes must be off);
//   - less and less_equal are false when an operand is NaN;
//   - min(a, b) is a < b ? a : b, and max(a, b) is a > b ? a : b: with a NaN operand the result is
//     b, as in x86's MINPS and MAXPS;
//   - an operation that makes a NaN may give it any bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace megalith::elementary {

struct Float32Ops {
  using V = float;
  using I = uint32_t;
  using M = bool;

  static V set(float x) { return x; }
  static I set_bits(uint32_t x) { return x; }

  static V add(V a, V b) { return a + b; }
  static V sub(V a, V b) { return a - b; }
  static V mul(V a, V b) { return a * b; }
  static V div(V a, V b) { return a / b; }
  /// a * b + c, rounded once.
  static V fma(V a, V b, V c) { return std::fma(a, b, c); }
  /// c - a * b, rounded once.
  static V fnma(V a, V b, V c) { return std::fma(-a, b, c); }
  static V min(V a, V b) { return a < b ? a : b; }
  static V max(V a, V b) { return a > b ? a : b; }

  static M less(V a, V b) { return a < b; }
  static M less_equal(V a, V b) { return a <= b; }
  static V select(M m, V yes, V no) { return m ? yes : no; }

  /// Reinterpretation, both ways.
  static I bits(V a) { return std::bit_cast<I>(a); }
  static V from_bits(I a) { return std::bit_cast<V>(a); }
  static I add_bits(I a, I b) { return a + b; }
  static I sub_bits(I a, I b) { return a - b; }
  static I and_bits(I a, I b) { return a & b; }
  static I or_bits(I a, I b) { return a | b; }
  template <int kBits>
  static I shift_left(I a) {
    return a << kBits;
  }
  /// Copies of the top bit come in from the left.
  template <int kBits>
  static I shift_right_arithmetic(I a) {
    return static_cast<I>(static_cast<int32_t>(a) >> kBits);
  }
  /// The float nearest to the two's complement integer (exact below 2^24).
  static V from_int(I a) { return static_cast<V>(static_cast<int32_t>(a)); }
};

}  // namespace megalith::elementary
