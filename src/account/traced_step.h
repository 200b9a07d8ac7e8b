// SPDX-License-Identifier: Apache-2.0
// One training step of given settings on a trace device: the body of a plan.
#pragma once

#include "comm/communicator.h"
#include "config/recipe.h"
#include "engine/engine.h"

namespace megalith::account {

/// A batch of the right sizes; its values are never read.
data::HostBatch shaped_batch(const engine::Settings& settings, int64_t samples);
/// One data rank's micro-batches of a full step, of the right sizes; ids and targets are 0.
std::vector<data::HostBatch> shaped_batches(const engine::Settings& settings);

/// What of a run takes memory beside its steps.
struct BesideSteps {
  int64_t validation_samples = 0;  // 0: no validation
  bool snapshot = false;           // saves go on in the background
  bool saves = false;              // state spread over data ranks is brought together
};
BesideSteps beside_steps(const config::Recipe& recipe);

/// Builds the rank's engine, takes what is beside the steps and runs a full one. `device` is of the
/// trace kind, `world` traced or self.
void traced_step(const engine::Settings& settings, device::Device& device,
                 comm::Communicator& world, const BesideSteps& beside);

}  // namespace megalith::account
