// SPDX-License-Identifier: Apache-2.0
// One training step of given settings on a trace device: the body of a plan.
#pragma once

#include "comm/communicator.h"
#include "train/engine.h"

namespace megalith::train {

/// One data rank's micro-batches of a full step, of the right sizes; ids and targets are 0.
std::vector<data::HostBatch> shaped_batches(const Settings& settings);

/// Builds the rank's engine and runs a full step, and a validation batch of `validation_samples`
/// unless 0. `device` is of the trace kind, `world` traced or self.
void traced_step(const Settings& settings, device::Device& device, comm::Communicator& world,
                 int64_t validation_samples);

}  // namespace megalith::train
