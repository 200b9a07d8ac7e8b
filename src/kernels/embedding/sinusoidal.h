// SPDX-License-Identifier: Apache-2.0
// Positions as sines and cosines (Vaswani et al. 2017) times one learned scale (Hua et al. 2022).
// For pair i of the columns and row t:
//   angle_ti = position_t inverse_i
//   p_t,2i   = sin(angle_ti)      p_t,2i+1 = cos(angle_ti)
//   y       += scale p
// The angle is one f32 product, its sine and cosine are within 0.5002 ulp
// (math/elementary_sin_cos.h). Activations are f32, bf16 or f16 (f64: everything, but `inverse`;
// the product too is in double). Local; ready as of a later ticket.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// y = fma(scale, p, y), rounded once more when storing.
struct SinusoidalForward {
  ConstView position_T;  // i32
  ConstView inverse_P;   // f32, 2 P columns of y
  ConstView scale;       // [1], f32, bf16 or f16
  View y_TH;             // in and out
};
void sinusoidal_forward(Exec& exec, const SinusoidalForward& arguments);

/// dscale_t = sum over columns of dy p, what each row adds to the gradient of the scale;
/// overwritten. Pair i goes to lane i mod 16, there the sine's product first; each lane is a chain
/// of f32 multiply-adds, the lanes combine as in tree_sum16.
struct SinusoidalBackward {
  ConstView dy_TH;
  ConstView position_T;  // i32
  ConstView inverse_P;   // f32
  View dscale_T;         // f32
};
void sinusoidal_backward(Exec& exec, const SinusoidalBackward& arguments);

}  // namespace megalith::kernels
