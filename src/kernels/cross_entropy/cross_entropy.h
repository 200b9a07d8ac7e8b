// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy over a vocabulary that may be cut over ranks. Between its three steps the
// caller combines small vectors: the maximum over ranks of `max`, the canonical shards of `sums`
// side by side, and the sum over ranks of `target` (exact, because all but one are 0).
//   row_max     max_r    = max_v l_rv
//   exp_sums    e_rv     = exp(l_rv - max_r)
//               sums_pr  = rowsum16 over shard p of e_rv
//               target_r = l_r,t(r)
//   row_loss    loss_r   = (max_r + log(sum_r)) - target_r
//   gradient    dl_rv    = e_rv * (a_r / sum_r * (1 + 2 z lse_r)) - a_r [v = t(r)]
// with a_r = weight_r * scale: the gradient of scale * sum_r weight_r * (loss_r + z * lse_r^2),
// where z is the z-loss of Chowdhery et al. 2022, section 5. Where logits are l = s x of products
// x, or with a softcap c (Gemma 2) l = c tanh(s x / c), the same pass gives the gradient of x:
//   gradient    dx_rv    = s dl_rv,   with a softcap  s dl_rv (1 - (l_rv / c)^2)
//
// V is the local part of the padded vocabulary and starts at global column vocab.begin. Columns
// whose global number is >= vocab.valid are padding: they are left out of every sum, and their
// gradient is exactly 0. Canonical shards are equal cuts of V. Sums within a shard run in 16 lanes
// (column in shard % 16), then a tree, so no bit depends on how shards lie on ranks.
//
// Local; results are ready as of a later ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// The local columns of the vocabulary.
struct VocabRange {
  int64_t begin = 0;  // global number of local column 0
  int64_t valid = 0;  // global size without padding
  int shards = 1;     // canonical shards in the local columns; divides V
};

/// max_R f32 [R], overwritten: the largest valid logit of each row; -inf where this rank holds only
/// padding.
struct RowMax {
  ConstView logits_RV;  // f32 (f64: reference)
  VocabRange vocab;
  View max_R;
};
void cross_entropy_row_max(Exec& exec, const RowMax& arguments);

/// All outputs are overwritten; exps_RV may be logits_RV (in place). A target outside the local
/// valid columns gives target_R = 0; the target of an ignored row (weight 0) may be anything.
struct ExpSums {
  ConstView logits_RV;  // f32
  VocabRange vocab;
  ConstView max_R;      // f32, over all ranks
  ConstView targets_R;  // i32, global column
  View exps_RV;         // f32; padding becomes 0. Absent: sums only (evaluation)
  View sums_PR;         // f32 [shards, R]
  View target_R;        // f32
};
void cross_entropy_exp_sums(Exec& exec, const ExpSums& arguments);

/// All outputs are overwritten.
struct RowLoss {
  ConstView max_R;     // f32 [R]
  ConstView sum_R;     // f32 [R]: tree of all shards' sums
  ConstView target_R;  // f32 [R]: over all ranks
  View loss_R;         // f32 [R], unweighted, without z-loss: -log probability of the target
  View lse_R;          // f32 [R], may be absent
};
void cross_entropy_row_loss(Exec& exec, const RowLoss& arguments);

/// dlogits_RV is overwritten. It may share the memory of exps_RV, row on row: f32 in place, 16 bits
/// in the first half of each row. A row of weight 0 gets exactly 0.
struct LossGradient {
  ConstView exps_RV;  // f32, from ExpSums
  VocabRange vocab;
  ConstView max_R;           // f32 [R]
  ConstView sum_R;           // f32 [R]
  ConstView targets_R;       // i32 [R]
  ConstView weight_R;        // f32 [R]
  float scale = 1;           // 1 / global weight of the step
  float z_loss = 0;          // z
  View dlogits_RV;           // f32, bf16 or f16 (f64)
  float logits_scale = 1;    // s
  float softcap = 0;         // c; 0: none
  ConstView logits_RV = {};  // l, f32; with a softcap, not in the memory of the exps
};
void cross_entropy_gradient(Exec& exec, const LossGradient& arguments);

}  // namespace megalith::kernels
