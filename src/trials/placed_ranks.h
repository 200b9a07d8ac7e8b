// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of this process, placed on cores as a training run places them.
#pragma once

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "device/device.h"

namespace megalith::trials {

/// body(world, device) on each of `ranks` threads with `threads` threads of its own. Returns when
/// all have; the first error of any is thrown.
void on_placed_ranks(int ranks, int threads,
                     FunctionRef<void(comm::Communicator& world, device::Device& device)> body);

}  // namespace megalith::trials
