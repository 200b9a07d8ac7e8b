// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al. 2021): pairs of a head's elements are turned by an angle
// proportional to the token's position, so that the product of a query and a key depends on the
// distance of their positions. For pair i of every head of row t:
//   angle_ti = position_t inverse_i
//   c_ti     = cos(angle_ti) scale
//   s_ti     = sin(angle_ti) scale
//   (x1, x2) -> (x1 c - x2 s, x2 c + x1 s)
// The first 2 `pairs` elements of a head are turned, the others stay. All rows of a step share one
// table of c and s, computed once. Local; ready as of a later ticket.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/heads_view.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// The angles per position, and the factor on cosines and sines (1 except for YaRN, Peng et al.
/// 2023, and LongRoPE, Ding et al. 2024). A value: it travels with the call.
struct RotaryFrequencies {
  static constexpr int64_t kMaxPairs = 256;
  int64_t pairs = 0;  // 1 .. kMaxPairs
  float scale = 1;
  std::array<float, kMaxPairs> inverse = {};
};

/// angles_TA, A = 2 `pairs`, overwritten: row t holds the cosines c_t0, c_t1, ..., then the sines.
/// f32: the position is rounded to f32; the angle is one f32 product (as in PyTorch's models); its
/// sine and cosine are within 0.5002 ulp for |angle| <= 2^31 (math/elementary_sin_cos.h); the scale
/// is one more f32 product. f64, for the reference: everything in double.
struct RotaryAngles {
  ConstView position_T;  // i32
  RotaryFrequencies frequencies;
  View angles_TA;
};
void rotary_angles(Exec& exec, const RotaryAngles& arguments);

/// Which two elements of a head form pair i of P.
enum class RotaryStyle : uint8_t {
  half,         // i and P + i: GPT-NeoX, Llama
  interleaved,  // 2 i and 2 i + 1: the paper, GPT-J
};

/// Turns x in place, or back with `inverse` (s -> -s, the transposed matrix: so backward is this
/// call on the gradient). x is f32, bf16 or f16 and the angles are f32 (f64: both). Computed in
/// f32 as
///   y1 = fma(x1, c, -(x2 s))
///   y2 = fma(x2, c, x1 s)
/// with the products x2 s and x1 s rounded to f32, and rounded once more when storing. x may be the
/// heads of a fused projection (heads_view.h).
struct RotaryApply {
  HeadsView x_TND;
  ConstView angles_TA;  // A = 2 P <= D
  RotaryStyle style = RotaryStyle::half;
  bool inverse = false;
};
void rotary_apply(Exec& exec, const RotaryApply& arguments);

}  // namespace megalith::kernels
