// SPDX-License-Identifier: Apache-2.0
// The factor that a loss is multiplied by so that gradients in f16 do not vanish, and how it
// follows them: torch.amp.GradScaler's update, with Megatron-LM's hysteresis.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// After a step, whose gradients were all finite or not:
///   not finite   the count of good steps begins again at 0. One chance less is left; with none
///                left scale = max(scale * backoff, least)
///   finite       one good step more. After `interval` of them in a row the count begins again, all
///                chances are back, and scale = scale * growth unless that is infinite
/// With `chances` 1 this is GradScaler (its update with found_inf; `least` 0), with more
/// DynamicGradScaler. The skip itself is for whoever reads `finite`. All on the device; scale and
/// steps are read and overwritten. Local; ready as of a later ticket.
struct UpdateLossScale {
  ConstView finite = {};  // i32 [1]: 0 if any gradient was infinite or NaN
  View scale = {};        // f32 [1]
  View steps = {};        // i32 [2]: good steps in a row; chances left
  float growth = 2;
  float backoff = 0.5f;
  int32_t interval = 2000;
  int32_t chances = 1;
  float least = 0;
};
void update_loss_scale(Exec& exec, const UpdateLossScale& arguments);

}  // namespace megalith::kernels
