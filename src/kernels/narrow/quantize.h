// SPDX-License-Identifier: Apache-2.0
// Numbers to codes of 8 bits and back with one scale for the whole tensor, and the largest
// magnitude that the next scale is made from: Transformer Engine's casts, to the bit.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// y = code of fl32(x * scale), saturating. x is [T, C] of f32 or bf16, y [T, C] of f8_e4m3 or
/// f8_e5m2; row strides allowed; y is overwritten. Local; ready as of a later ticket.
struct Quantize {
  ConstView x;
  View y;
  ConstView scale = {};  // f32 [1]
  /// y once more as [C, T], written in the same pass; absent: not wanted.
  View transposed = {};
  /// f32 [1]: becomes the larger of itself and max |x|, before the scale; NaN is passed over, as by
  /// fmax, infinity is not. Absent: not wanted.
  View amax = {};
  /// i64 [kQuantizeCounts], added to (+=): elements that saturated (finite x whose code is not what
  /// an unlimited range would give), that were flushed (x not 0, its code 0), and that were
  /// infinite or NaN. Absent: not wanted.
  View counts = {};
};
inline constexpr int64_t kQuantizeCounts = 3;
void quantize(Exec& exec, const Quantize& arguments);

/// y = fl32(x * scale), rounded once more where y is bf16. x is [T, C] of f8_e4m3 or f8_e5m2, y of
/// f32 or bf16, overwritten. scale, f32 [1], is the inverse of quantize()'s.
struct Dequantize {
  ConstView x;
  View y;
  ConstView scale;
};
void dequantize(Exec& exec, const Dequantize& arguments);

/// amax, f32 [1], becomes the larger of itself and max |x|, as by quantize(). x is f32 or bf16.
void absolute_maximum(Exec& exec, ConstView x, View amax);

}  // namespace megalith::kernels
