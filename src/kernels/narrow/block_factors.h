// SPDX-License-Identifier: Apache-2.0
// The factor of a block, which its scale is written from.
#pragma once

#include "kernels/narrow/quantize_blocks.h"

namespace megalith::kernels {

/// Writes scale [row, column] of the blocks and returns what multiplies the block's numbers.
inline float write_block_scale(const QuantizeBlocks& a, int64_t row, int64_t column, float amax) {
  const int64_t at = row * a.scales.row_stride() + column;
  if (a.scales.dtype() == DType::f8_e8m0) {
    const f8_e8m0_t exponent = block_exponent(amax, a.rule.largest);
    a.scales.as<f8_e8m0_t>()[at] = exponent;
    return factor_of_exponent(exponent);
  }
  const float factor = scale_from_amax(amax, a.rule);
  a.scales.as<float>()[at] = 1 / factor;
  return factor;
}

}  // namespace megalith::kernels
