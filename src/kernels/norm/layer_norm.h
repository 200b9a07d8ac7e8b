// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba et al. 2016) and root-mean-square normalisation (Zhang & Sennrich 2019)
// of each row:
//   layer:  mean = sum_H(x) / H
//           rstd = 1 / sqrt(sum_H((x - mean)^2) / H + eps)
//   rms:    mean = 0
//           rstd = 1 / sqrt(sum_H(x^2) / H + eps)
//   x^ = (x - mean) rstd
//   y  = x^ (gamma_offset + gamma) + beta
// The offset is 1 where gamma is stored as its distance from 1 (Gemma), else 0; it is added in f32.
// Two passes (first the mean, then the deviations: no cancellation), sums in 16 virtual lanes, true
// square roots and divisions. Storage is f32, bf16 or f16, each view its own; computing is in f32
// with one rounding at the end; f64 throughout goes to the reference. Rows may have strides. Local;
// ready as of a later ticket.
#pragma once

#include "kernels/exec.h"
#include "kernels/reduction/token_shards.h"

namespace megalith::kernels {

enum class NormKind : uint8_t { layer, rms };

/// y is overwritten and may alias x; so are mean and rstd.
struct LayerNormForward {
  ConstView x_TH;
  ConstView gamma_H;
  ConstView beta_H = {};  // optional; absent for rms
  View y_TH;
  View mean_T = {};  // f32; optional (inference); absent for rms
  View rstd_T = {};  // f32; optional (inference)
  float eps = 1e-5f;
  NormKind kind = NormKind::layer;
  float gamma_offset = 0;
};
void layer_norm_forward(Exec& exec, const LayerNormForward& arguments);

/// With g = dy (gamma_offset + gamma) and row means <.> = sum_H(.) / H:
///   dx        = rstd (g - <g> - x^ <g x^>) + residual_gradient     (rms: without <g>)
///   dgamma_P += sum over the rows of partial P of dy x^
///   dbeta_P  += sum over the rows of partial P of dy
/// dx is overwritten and may alias dy, residual_gradient or both; it must not alias x. dgamma and
/// dbeta accumulate, one chain per element in increasing row (reduction/token_shards.h).
struct LayerNormBackward {
  ConstView dy_TH;
  ConstView x_TH;
  ConstView gamma_H;
  ConstView mean_T = {};  // f32; absent for rms
  ConstView rstd_T;       // f32
  View dx_TH;
  ConstView residual_gradient_TH = {};  // optional: the gradient that passes by the norm
  View dgamma_PH = {};                  // f32; optional (frozen)
  View dbeta_PH = {};                   // f32; optional
  TokenShards shards = {};
  NormKind kind = NormKind::layer;
  float gamma_offset = 0;
};
void layer_norm_backward(Exec& exec, const LayerNormBackward& arguments);

}  // namespace megalith::kernels
