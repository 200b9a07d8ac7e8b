// SPDX-License-Identifier: Apache-2.0
// Interrupted runs, drawn: event after event on a clock of their own. Failure number k of run
// number i is a function of (seed, i, k): the same on every machine, and of any number of runs the
// first ones are the same.
#pragma once

#include <cstdint>
#include <vector>

#include "goodput/interrupted_run.h"

namespace megalith::goodput {

/// One run, in seconds.
struct SimulatedRun {
  double total = 0;
  double saves = 0;  // stalls of those that lasted, and the writing of the last
  double restarts = 0;
  double lost = 0;  // work and saves that were not durable
  int64_t failures = 0;
};
SimulatedRun simulate(const InterruptedRun& run, uint64_t seed, uint64_t number);

struct Mean {
  double value = 0;
  double standard_error = 0;
};
/// Of many runs.
struct Simulation {
  std::vector<double> totals;  // seconds, shortest first
  Mean total, saves, restarts, lost, failures;
  /// The total that a part of the runs (0 to 1) does not exceed.
  double quantile(double part) const;
};
Simulation simulate_runs(const InterruptedRun& run, uint64_t seed, int64_t runs);

}  // namespace megalith::goodput
