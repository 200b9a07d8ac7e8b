// SPDX-License-Identifier: Apache-2.0
// The norm of layer_norm.h for every head of every row: x^ and the statistics are those of one
// head's D elements, and all heads share gamma (the query and key norm of Qwen3 and Gemma 3;
// Dehghani et al. 2023):
//   y_thd = x^_thd (gamma_offset + gamma_d)
// Heads may be those of a fused projection (attention/heads_view.h). Storage is f32, bf16 or f16,
// each view its own; computing is in f32 with one rounding at the end; f64 throughout goes to the
// reference. Statistics and the parameter's gradient are f32 (f64 beside f64). Local; ready as of a
// later ticket.
#pragma once

#include "kernels/attention/heads_view.h"
#include "kernels/exec.h"
#include "kernels/norm/layer_norm.h"

namespace megalith::kernels {

/// y is overwritten and may be x (same storage, same strides); so are mean and rstd, [T, N] in
/// order.
struct HeadNormForward {
  ConstHeadsView x_TND;
  ConstView gamma_D;
  HeadsView y_TND;
  View mean_TN = {};  // optional (inference); absent for rms
  View rstd_TN = {};  // optional (inference)
  float eps = 1e-6f;
  NormKind kind = NormKind::rms;
  float gamma_offset = 0;
};
void head_norm_forward(Exec& exec, const HeadNormForward& arguments);

/// dx as in layer_norm.h, per head. dx is overwritten and may be dy (same storage, same strides);
/// it must not overlap x. For dgamma_PD the heads are cut into P equal runs in order, and partial p
/// sums over run p:
///   dgamma_pd += sum of dy_thd x^_thd,   t increasing, within t the heads h of run p increasing
/// One chain of f32 fused multiply-adds per element that continues from the stored value: cutting
/// the rows into several calls, or the runs over ranks, does not change a bit.
struct HeadNormBackward {
  ConstHeadsView dy_TND;
  ConstHeadsView x_TND;  // what forward was given
  ConstView gamma_D;
  ConstView mean_TN = {};  // absent for rms
  ConstView rstd_TN;
  HeadsView dx_TND;
  View dgamma_PD = {};  // optional (frozen); P divides N
  NormKind kind = NormKind::rms;
  float gamma_offset = 0;
};
void head_norm_backward(Exec& exec, const HeadNormBackward& arguments);

}  // namespace megalith::kernels
