// SPDX-License-Identifier: Apache-2.0
// Steps of settings on made-up batches, timed: what a layout really takes here.
#pragma once

#include <vector>

#include "account/plan.h"
#include "comm/communicator.h"
#include "engine/settings.h"

namespace megalith::trials {

struct TimedStepsOptions {
  int warm_up = 2;  // steps before
  int samples = 5;
  double least_seconds = 0;  // of a sample, which is of as many steps as that takes
};

struct TimedSteps {
  std::vector<double> seconds;     // of a step, by sample: from the moment all ranks began it
  std::vector<double> other_load;  // by sample: of the cores' time, by other programs (rank 0's)
  /// By sample, just before: FLOP/s of the fastest product of the settings' type on a rank, all at
  /// once (mean). A machine's speed changes within seconds; this says by how much.
  std::vector<double> ceiling;
  /// The marks of the rank of all that took most, at the end.
  account::MemoryByClass memory;
};

/// Runs them on this rank of `world`; every rank gets the same figures. Collective.
TimedSteps timed_steps(comm::Communicator& world, device::Device& device,
                       const engine::Settings& settings, const TimedStepsOptions& options);

}  // namespace megalith::trials
