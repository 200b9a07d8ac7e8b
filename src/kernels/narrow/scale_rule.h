// SPDX-License-Identifier: Apache-2.0
// A scale from the largest magnitude that it must hold: the rules of Transformer Engine
// (common/recipe/recipe_common.cuh, mxfp8_scaling.cu), in f32 throughout.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace megalith::kernels {

/// The largest power of two that is not above x > 0, by clearing the mantissa: of a denormal x, 0.
inline float power_of_two_below(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xff800000u);
}

/// How a tensor, or a block of one, is scaled that is quantised by its own magnitude.
struct ScaleRule {
  float largest = 448;        // that codes hold
  bool power_of_two = false;  // rounded down to one
  float epsilon = 0;          // amax counts as at least this
  /// For an amax so small that the quotient is infinite.
  float at_most = std::numeric_limits<float>::max();
};

/// The factor before quantising: largest / amax. 1 for an amax of 0, infinity or NaN.
inline float scale_from_amax(float amax, const ScaleRule& rule) {
  if (amax < rule.epsilon) amax = rule.epsilon;
  if (!std::isfinite(amax) || amax == 0) return 1;
  float scale = rule.largest / amax;
  if (std::isinf(scale)) scale = rule.at_most;
  return rule.power_of_two ? power_of_two_below(scale) : scale;
}

/// The scale of a block that has an exponent alone (MX): the least power of two that is not below
/// fl32(amax * fl32(1 / largest)).
inline f8_e8m0_t block_exponent(float amax, float largest) {
  return to_f8_e8m0_up(amax * (1 / largest));
}
/// The factor before quantising for such a block: the inverse power. Of the least code, which a
/// block of zeros has, it is 1, and of NaN it is NaN.
inline float factor_of_exponent(f8_e8m0_t exponent) {
  if (exponent.bits == 0) return 1;
  if (exponent.bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(uint32_t{254u - exponent.bits} << 23);
}

}  // namespace megalith::kernels
