// SPDX-License-Identifier: Apache-2.0
// The gate of a gated MLP (Shazeer 2020, "GLU variants"): SwiGLU with `silu`, GEGLU with one of the
// GELUs, ReGLU with `relu`, the bilinear layer with `none`. The columns of u come in pairs, gate_j
// in column 2 j and up_j in column 2 j + 1, so that any even cut of the columns over ranks holds
// whole pairs.
//   a_j = activation(gate_j)
//   y_j = a_j up_j
// f32, bf16 or f16, any mix (f64 throughout: the reference); row strides allowed. Computed in f32
// in the order of the formulas with one rounding per product, as the separate operations would in
// f32, and rounded once more when storing. Local; ready as of a later ticket.
#pragma once

#include "kernels/elementwise/activation.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// y is overwritten; it must not overlap u.
struct GatedForward {
  ConstView u_TG;  // [T, 2 F]
  View y_TF;
  Activation kind = Activation::silu;
};
void gated_forward(Exec& exec, const GatedForward& arguments);

///   du_2j   = (dy_j up_j) activation'(gate_j)
///   du_2j+1 = dy_j a_j
/// du is overwritten; it may be u itself (same storage and strides), but must not overlap dy.
struct GatedBackward {
  ConstView dy_TF;
  ConstView u_TG;  // what forward was given
  View du_TG;
  Activation kind = Activation::silu;
};
void gated_backward(Exec& exec, const GatedBackward& arguments);

}  // namespace megalith::kernels
