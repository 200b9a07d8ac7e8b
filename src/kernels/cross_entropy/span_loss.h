// SPDX-License-Identifier: Apache-2.0
// The loss of extractive question answering (Devlin et al. 2019, section 4.2): each of O columns of
// logits is a softmax over the rows of a sequence, one for the start of the answer span and one for
// its end, and the loss is the mean of their cross-entropies.
//   lse_uo   = log sum_t exp(y_to)           over the rows t of sequence u
//   loss_u   = (1 / O) sum_o (lse_uo - y_(begin_u + target_uo),o)
//   dy_to    = a_u (p_to (1 + 2 z lse_uo) - [t = begin_u + target_uo])    p_to = exp(y_to - lse_uo)
// with a_u = weight_u scale / O: the gradient of scale * sum_u weight_u (loss_u + (z / O) sum_o
// lse_uo^2). Sums are f64 chains in increasing t, what follows is f64, each result is rounded once.
// Local; ready as of a later ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// Outputs are overwritten. A sequence of weight 0 has loss 0 and exactly no gradient, whatever its
/// targets are, and so have rows beyond the last sequence. A target outside its sequence counts as
/// a logit of 0 without a gradient.
struct SpanLoss {
  ConstView y_TO;        // f32 (f64: reference)
  ConstView cu_seqlens;  // i32 [sequences + 1]
  ConstView targets_UO;  // i32: row indices within the sequence
  ConstView weight_U;    // f32; U: at least as many as there are sequences
  float scale = 1;       // 1 / global weight of the step
  float z_loss = 0;      // z
  View loss_U;           // the type of y
  View dy_TO;            // the type of y, which it may alias; absent: losses only
};
void span_loss(Exec& exec, const SpanLoss& arguments);

}  // namespace megalith::kernels
