// SPDX-License-Identifier: Apache-2.0
// The loss of pairs of answers, of which one was chosen and one rejected (DPO, Rafailov et al.
// 2023, equation 7; with labels smoothed as in its reference implementation, Mitchell 2023):
//   log pi(y)  = - sum of nll_t over the learned tokens t of answer y
//   reward(y)  = beta (log pi(y) - log ref(y))
//   h_p        = reward(chosen) - reward(rejected)
//   loss_p     = -(1 - e) log sigmoid(h_p) - e log sigmoid(-h_p)
// and what each token weighs in the gradient of sum_p weight_p loss_p, as weights of a cross
// entropy:
//   a_p = weight_p beta (sigmoid(-h_p) - e)     + a_p on chosen tokens, - a_p on rejected ones
// The sum over an answer is one f64 chain in increasing t, rounded once to the type of nll; all
// behind it is f64, each result rounded once. Local; ready as of a later ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// Rows of values_VP.
enum class PreferenceValue : int64_t {
  loss,
  chosen_reward,
  rejected_reward,
  margin,    // h
  accuracy,  // 1 where h > 0, else 0
  chosen_log_probability,
  rejected_log_probability,
};
inline constexpr int64_t kPreferenceValues = 7;

/// Outputs are overwritten; a pair of weight 0, and a token of no pair, weighs exactly 0.
struct PreferenceLoss {
  ConstView nll_T;      // f32 (f64: reference): -log p of each token's target
  ConstView targets_T;  // i32; below 0: not learned
  /// i32 [P, 3]: the first token of the chosen answer, that of the rejected one right behind it,
  /// and the end of that; equal ones: no pair.
  ConstView rows_P3;
  ConstView reference_P2;  // f32: log ref of the chosen answer, of the rejected one
  ConstView weight_P;      // f32
  double beta = 0;
  double label_smoothing = 0;  // e
  View values_VP;              // the type of nll [kPreferenceValues, P]
  View weight_T;               // the type of nll; absent: losses only
};
void preference_loss(Exec& exec, const PreferenceLoss& arguments);

}  // namespace megalith::kernels
