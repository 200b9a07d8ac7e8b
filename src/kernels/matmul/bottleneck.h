// SPDX-License-Identifier: Apache-2.0
// Bottleneck adapters (Houlsby et al. 2019, figure 2), row by row:
//   u = x d^T + b_d      a = silu(u)      y = round(x + (a e^T + b_e))
// d [R, H], e [H, R]. The adapter's parameters, u, a and what is added to x are f32; x is f32, bf16
// or f16, with any row stride (or all are f64). Sums are f32 chains in increasing index
// (linear.h): a row's result depends on the row alone. Local; results are ready as of a later
// ticket. Workspace for each row: R + H elements forward, at most 3 R + H backward.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

struct Bottleneck {
  ConstView down_RH, down_bias_R, up_HR, up_bias_H;
};

/// y holds x, and is overwritten.
void bottleneck_forward(Exec& exec, const Bottleneck& adapter, View y_TH);

///   du = (dy e) silu'(u)      dx = round(dy + du d)
///   dd += du^T x, db_d += sum of du, de += dy^T a, db_e += sum of dy    in increasing row
/// u and a are recomputed from x. Parameter gradients accumulate; absent ones are not computed.
struct BottleneckBackward {
  Bottleneck adapter;
  ConstView x_TH, dy_TH;  // x: what forward read, before it overwrote it
  View dx_TH;             // overwritten
  View down_gradient_RH = {}, down_bias_gradient_R = {};
  View up_gradient_HR = {}, up_bias_gradient_H = {};
};
void bottleneck_backward(Exec& exec, const BottleneckBackward& arguments);

}  // namespace megalith::kernels
