// SPDX-License-Identifier: Apache-2.0
// Numbers to codes of 8 bits with a scale for each block of the tensor, made from the block itself:
// Transformer Engine's Float8BlockScaling (1 x 128, 128 x 128) and MXFP8 (1 x 32).
#pragma once

#include "kernels/exec.h"
#include "kernels/narrow/scale_rule.h"

namespace megalith::kernels {

/// y = code of fl32(x * factor), saturating, with one factor for each block of `block_rows` x
/// `block_columns` elements (those at the edges are smaller). x is [T, C] of f32 or bf16, y [T, C]
/// of f8_e4m3 or f8_e5m2; row strides allowed; y and scales are overwritten. Local; ready as of a
/// later ticket.
struct QuantizeBlocks {
  ConstView x;
  View y;
  /// What multiplies the codes to give the numbers, of block_scales_shape(): f32, the inverse of
  /// the factor that `rule` makes; or f8_e8m0, the block's exponent, whose inverse is the factor
  /// (`rule` gives the largest number alone).
  View scales;
  int64_t block_rows = 1;
  int64_t block_columns = 128;
  ScaleRule rule = {};
};
void quantize_blocks(Exec& exec, const QuantizeBlocks& arguments);

/// Quantises and dequantises x (fake quantisation): y = fl32(value of the code * scale of its
/// block), with the codes and scales of quantize_blocks(), which are not stored. Rounded once more
/// where y is bf16, which changes nothing where scales are powers of two. x and y are [T, C] of f32
/// or bf16; row strides allowed; y is overwritten. Local; ready as of a later ticket.
struct RoundBlocks {
  ConstView x;
  View y;
  DType code = DType::f8_e4m3;  // or f8_e5m2
  DType scale = DType::f32;     // or f8_e8m0
  int64_t block_rows = 1;
  int64_t block_columns = 128;
  ScaleRule rule = {};
};
void round_blocks(Exec& exec, const RoundBlocks& arguments);

/// The shape of the scales of a matrix.
Shape block_scales_shape(const Shape& shape, int64_t block_rows, int64_t block_columns);

}  // namespace megalith::kernels
