// SPDX-License-Identifier: Apache-2.0
// The bf16 chain: how products of two bf16 add up to an f32 sum. Operands come in pairs of
// neighbours; of each pair the odd element is added first, then the even one, each by one fused
// multiply-add to nearest even that takes denormal operands as zeros and flushes denormal results
// to zeros, signs kept:
//   sum = fma(a[2i + 1], b[2i + 1], sum)
//   sum = fma(a[2i], b[2i], sum)
// An odd number of elements is padded with +0 x +0. This is what VDPBF16PS computes (Intel 64 and
// IA-32 Architectures Software Developer's Manual, volume 2) and what FMA instructions on widened
// operands compute with FTZ and DAZ set in MXCSR. Scalar and slow: the specification.
#pragma once

#include <cmath>

namespace megalith {

/// x, or the zero of its sign where x is denormal.
inline float without_denormal(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

/// fma(a, b, sum) of the chain. A result is flushed if it is below the least normal number once it
/// has 24 bits, whatever its exponent (x86 finds tininess after rounding): what std::fma rounds up
/// to that number may have been below it.
inline float flushing_fma(float a, float b, float sum) {
  a = without_denormal(a), b = without_denormal(b), sum = without_denormal(sum);
  const float result = std::fma(a, b, sum);
  if (!(std::fabs(result) <= 0x1p-126f)) return result;  // and NaN
  // The product is exact; near the limit the sum is, too.
  const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(sum);
  const bool tiny = std::fabs(exact) < 0x1p-126 - 0x1p-151;
  return tiny ? std::copysign(0.0f, result) : result;
}

/// The sum after one pair; operands are bf16 values.
inline float bf16_chain_step(float even_a, float even_b, float odd_a, float odd_b, float sum) {
  return flushing_fma(even_a, even_b, flushing_fma(odd_a, odd_b, sum));
}

}  // namespace megalith
