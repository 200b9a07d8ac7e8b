// SPDX-License-Identifier: Apache-2.0
// From token losses on the device to one number: f64 chains in token order within a sample, then in
// sample order, so that neither micro-batches nor data ranks show.
#pragma once

#include <span>
#include <vector>

#include "data/host_batch.h"
#include "device/device.h"

namespace megalith::engine {

/// The values of a device view of f32 or f64, on the host.
std::vector<double> read_losses(device::Device& device, ConstView loss_T);

/// Per-sample sums of weight x loss; `loss_T` runs through all tokens of the batches.
std::vector<double> sample_sums(std::span<const data::HostBatch> micro_batches,
                                std::span<const double> loss_T);

}  // namespace megalith::engine
