// SPDX-License-Identifier: Apache-2.0
// The mean time of an interrupted run. With r = 1 / mean_to_stop, work w and a save s, a stretch
// that begins behind the save before takes on average
//   e^(r (restart + write)) (e^(r (w + s)) - 1) / r                                            (1)
// seconds until its own save is durable, measured from when the one before was (Daly 2006, eq. 20,
// with write = 0: the exact mean under failures at a constant rate, restarts included). The first
// stretch has no save before it: its `write` counts inside of the bracket. A save in the background
// therefore costs as if restarts took longer by `write`, and moves the best interval not at all.
#pragma once

#include "goodput/interrupted_run.h"

namespace megalith::goodput {

/// Mean seconds of the whole run.
double expected_seconds(const InterruptedRun& run);

/// Where they go: `work`, and on average: saves that lasted with the writing of the last one,
/// restarts, and what was lost; they add up to `total`. And the number of failures.
struct ExpectedShares {
  double total = 0, work = 0, saves = 0, restarts = 0, lost = 0;
  double failures = 0;
  double goodput() const { return work / total; }
};
ExpectedShares expected_shares(const InterruptedRun& run);

/// The interval with the shortest expected run: of w that minimises (1) / w. `run.interval` is not
/// read. No less than `write` and no more than the work.
double best_interval(const InterruptedRun& run);
/// sqrt(2 save mean_to_stop), Young 1974.
double young_interval(const InterruptedRun& run);
/// Daly 2006, eq. 37: Young's with two terms more, less the save.
double daly_interval(const InterruptedRun& run);

}  // namespace megalith::goodput
