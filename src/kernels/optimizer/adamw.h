// SPDX-License-Identifier: Apache-2.0
// One AdamW step over a contiguous range of parameters (Loshchilov & Hutter 2019), in one pass over
// memory. The operations, in order, each rounded once to f32:
//   g' = scale g
//   w' = (1 - lr weight_decay) w
//   m  = fma(1 - beta1, g' - m, m)
//   v  = fma(1 - beta2, fma(g', g', -v), v)
//   w  = fma(-lr / (1 - beta1^step), m / (sqrt(v) / sqrt(1 - beta2^step) + eps), w')
// For a beta of at most 1/2 the moments start from the gradient's side:
//   m  = fma(-beta1, g' - m, g')
//   v  = fma(-beta2, fma(g', g', -v), g' g')
// Both are interpolations (torch.lerp, which torch.optim.AdamW uses for m), whose weights sum to 1.
// In the usual form,
//   v  = beta2 v + (1 - beta2) g'^2
// they do not: in f32, 0.999 + 0.001 = 1 + 1.3e-8, and in the long run v is 1.3e-5 too large.
// The scalar factors are computed in double and rounded to f32. beta^step is repeated squaring, not
// libm's pow: the same bits everywhere.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// w, m and v are read and overwritten; g is only read. All contiguous, n elements each, any shape.
/// f32; everything f64: reference. Local; ready as of a later ticket.
struct AdamW {
  View w_N;
  View m_N;
  View v_N;
  ConstView g_N;
  ConstView gradient_scale = {};  // f32 [1] (or f64 with f64), optional: the clip factor
  ConstView apply = {};  // i32 [1], optional: 0 leaves everything as it is (a skipped step)
  View compute_N = {};   // optional: receives w rounded to f32, bf16 or f16
  View finite = {};      // i32 [1], optional: overwritten by 1 if all that was written is finite,
                         // else by 0; left alone when not applied
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;  // 1 for the first
};
void adamw(Exec& exec, const AdamW& arguments);

///   norm   = sqrt(total) / scale
///   factor = min(1, max_norm / (norm + 1e-6)) / scale
/// as torch.nn.utils.clip_grad_norm_ of gradients that were multiplied by `scale`, in f64 with
/// factor rounded once to f32: a power of two moves no bit. A NaN total gives NaN in both. max_norm
/// > 0; with infinity the factor is 1 / scale for a finite total. Overwrites. Local; ready as of a
/// later ticket.
struct ClipFactor {
  ConstView total_sum_of_squares;  // f64 [1]
  double max_norm = 1;
  View factor;           // f32 [1]
  View norm;             // f64 [1]
  ConstView scale = {};  // f32 [1], a power of two; absent: 1
};
void clip_factor(Exec& exec, const ClipFactor& arguments);

}  // namespace megalith::kernels
