// SPDX-License-Identifier: Apache-2.0
// The factor of a block, which its scale is written from.
#pragma once

#include "kernels/narrow/quantize_blocks.h"

namespace megalith::kernels {

/// What multiplies a block's numbers to give what codes are made of, and what multiplies codes to
/// give the numbers back, as a scale of a type holds it.
struct BlockScale {
  float factor, inverse;
  f8_e8m0_t exponent = {};

  static BlockScale of(float amax, DType type, const ScaleRule& rule) {
    if (type == DType::f8_e8m0) {
      const f8_e8m0_t exponent = block_exponent(amax, rule.largest);
      return {factor_of_exponent(exponent), to_f32(exponent), exponent};
    }
    const float factor = scale_from_amax(amax, rule);
    return {factor, 1 / factor};
  }
};

/// One pass over the blocks of x: y receives codes and `scales` what belongs to them; or, without
/// scales, y receives the numbers that codes of `code` would stand for.
struct BlockPass {
  ConstView x;
  View y, scales;
  DType code, scale;
  int64_t block_rows, block_columns;
  ScaleRule rule;
};

/// Writes scale [row, column] of the blocks.
inline void write_block_scale(const View& scales, int64_t row, int64_t column,
                              const BlockScale& scale) {
  const int64_t at = row * scales.row_stride() + column;
  if (scales.dtype() == DType::f8_e8m0)
    scales.as<f8_e8m0_t>()[at] = scale.exponent;
  else
    scales.as<float>()[at] = scale.inverse;
}

/// The scale of the block there, written where scales are wanted.
inline BlockScale scale_of_block(const BlockPass& a, int64_t row, int64_t column, float amax) {
  const BlockScale scale = BlockScale::of(amax, a.scale, a.rule);
  if (!a.scales.absent()) write_block_scale(a.scales, row, column, scale);
  return scale;
}

}  // namespace megalith::kernels
