// SPDX-License-Identifier: Apache-2.0
// What kernels take here, from steps of small models (calibration_models.h) with a recorder: of
// each kernel at each place of a model the fastest of several steps, because other programs only
// make it slower.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trials/calibration_models.h"
#include "trials/rate_fit.h"

namespace megalith::trials {

struct SamplingOptions {
  int ranks = 1;    // at work at the same time, each with a model of its own
  int threads = 1;  // of each
  int steps = 5;    // timed, of each model
  std::function<void(const std::string&)> progress;  // a line for people; may be empty
};

struct KernelSamples {
  std::vector<KernelSample> kernels;
  double gap_seconds = 0;  // between a kernel and the next; of all calls
};

/// On rank 0, while all ranks work. Runs for a minute or so.
KernelSamples sample_kernels(const SamplingOptions& options);

}  // namespace megalith::trials
