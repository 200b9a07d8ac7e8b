// SPDX-License-Identifier: Apache-2.0
// Sine and cosine of a float, computed in double so that large arguments (the angles of late
// positions) are as good as small ones: + - x and fma only, the same bits on every CPU, instruction
// set and vector width. One template over the operations of a double or of a vector of them, as in
// elementary.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace megalith::elementary {

/// The operations of sin_cos for one double; their meanings are those of elementary_ops.h with
/// binary64 numbers and 64-bit integers.
struct Float64Ops {
  using V = double;
  using I = uint64_t;
  using M = bool;

  static V set(double x) { return x; }
  static I set_bits(uint64_t x) { return x; }
  static V sub(V a, V b) { return a - b; }
  static V mul(V a, V b) { return a * b; }
  static V fma(V a, V b, V c) { return std::fma(a, b, c); }
  static V fnma(V a, V b, V c) { return std::fma(-a, b, c); }
  /// (a & mask) != 0 for a mask of one bit.
  static M test_bit(I a, I mask) { return (a & mask) != 0; }
  static V select(M m, V yes, V no) { return m ? yes : no; }
  static I bits(V a) { return std::bit_cast<I>(a); }
  static V from_bits(I a) { return std::bit_cast<V>(a); }
  static I add_bits(I a, I b) { return a + b; }
  static I and_bits(I a, I b) { return a & b; }
  static I xor_bits(I a, I b) { return a ^ b; }
  template <int kBits>
  static I shift_left(I a) {
    return a << kBits;
  }
};

#include "math/elementary_sin_cos-inl.h"

struct SinCos {
  float sin, cos;
};

/// Both within 0.5002 ulp for |x| <= 2^31 (the one rounding to f32 and what precedes it); beyond,
/// the argument reduction loses accuracy. NaN at the infinities.
inline SinCos sin_cos(float x) {
  double sine = 0, cosine = 0;
  sin_cos<Float64Ops>(static_cast<double>(x), sine, cosine);
  return {static_cast<float>(sine), static_cast<float>(cosine)};
}
inline float sin(float x) { return sin_cos(x).sin; }
inline float cos(float x) { return sin_cos(x).cos; }

}  // namespace megalith::elementary
