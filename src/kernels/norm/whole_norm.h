// SPDX-License-Identifier: Apache-2.0
// The norm of layer_norm.h over all heads of a row together (queries and keys of OLMo 2), in steps:
// between them whoever holds some heads of each row adds up sums with those who hold the others.
// With H the elements of a whole row, heads on all ranks counted:
//   mean = sum(x) / H                              rms: 0
//   rstd = 1 / sqrt(sum((x - mean)^2) / H + eps)
//   x^   = (x - mean) rstd
//   y    = x^ (gamma_offset + gamma)
//   g    = dy (gamma_offset + gamma)
//   dx   = rstd (g - sum(g) / H - x^ sum(g x^) / H)       rms: without sum(g)
// Sums come in parts: the heads are cut into P equal runs in order, and part p sums over run p in
// 16 lanes that go on from head to head (each begins at lane 0), then their tree. The tree over
// all parts of a row (reduction/tree_sum.h) is its total: ranks that hold whole subtrees of the
// runs give the bits of one that holds all.
// Heads may be those of a fused projection (attention/heads_view.h). Storage is f32, bf16 or f16,
// each view its own; computing is in f32 with one rounding at the end; f64 throughout goes to the
// reference. Sums and the parameter's gradient are f32 (f64 beside f64). All are local and ready as
// of a later ticket.
#pragma once

#include "kernels/attention/heads_view.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// What is known of whole rows.
struct RowTotals {
  ConstView sum_T = {};  // sum(x); absent for rms
  ConstView squares_T;   // sum((x - mean)^2)
  int64_t width = 0;     // H
  float eps = 1e-6f;
};

/// sums_PT, overwritten: of x, or with `squares` of (x - sum_T / width)^2. Rows of sums_PT may have
/// strides; P divides N.
struct WholeNormSums {
  ConstHeadsView x_TND;
  View sums_PT;
  bool squares = false;
  ConstView sum_T = {};  // totals, for the squares of a layer norm
  int64_t width = 0;
};
void whole_norm_sums(Exec& exec, const WholeNormSums& arguments);

/// y is overwritten and may be x (same storage, same strides).
struct WholeNormForward {
  ConstHeadsView x_TND;
  ConstView gamma_ND;
  HeadsView y_TND;
  RowTotals totals;
  float gamma_offset = 0;
};
void whole_norm_forward(Exec& exec, const WholeNormForward& arguments);

/// products_PT = sums of g x^ and, for a layer norm, sums_PT = those of g. Both overwritten; their
/// rows may have strides; P divides N.
struct WholeNormGradientSums {
  ConstHeadsView dy_TND;
  ConstHeadsView x_TND;  // what forward was given
  ConstView gamma_ND;
  View sums_PT = {};  // absent for rms
  View products_PT;
  RowTotals totals;
  float gamma_offset = 0;
};
void whole_norm_gradient_sums(Exec& exec, const WholeNormGradientSums& arguments);

/// dx is overwritten and may be dy (same storage, same strides); it must not overlap x.
struct WholeNormBackward {
  ConstHeadsView dy_TND;
  ConstHeadsView x_TND;
  ConstView gamma_ND;
  ConstView sum_g_T = {};  // totals of the gradient sums; absent for rms
  ConstView product_T;
  HeadsView dx_TND;
  RowTotals totals;
  float gamma_offset = 0;
};
void whole_norm_backward(Exec& exec, const WholeNormBackward& arguments);

/// dgamma_hd += sum over t of dy_thd x^_thd: one chain of f32 fused multiply-adds per element in
/// increasing t that continues from the stored value. Heads may be parts of heads.
struct WholeNormWeightGradient {
  ConstHeadsView dy_TND;
  ConstHeadsView x_TND;
  View dgamma_ND;
  RowTotals totals;
};
void whole_norm_weight_gradient(Exec& exec, const WholeNormWeightGradient& arguments);

}  // namespace megalith::kernels
