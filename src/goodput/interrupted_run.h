// SPDX-License-Identifier: Apache-2.0
// A run that fails now and then and goes on from its newest durable checkpoint. Failures come at
// random moments, at a constant rate (a Poisson process), also while a restart is under way:
//
//   work `interval` | stalled by a save | work `interval` | stalled | ...
//                                       |-- `write` -- it is durable
//
// After a failure: `restart`, begun anew when something fails within it, then the work since the
// newest durable checkpoint again. The run begins at work and ends when its last save is durable.
#pragma once

#include <cstdint>

namespace megalith::goodput {

/// All in seconds.
struct InterruptedRun {
  double work = 0;          // without failures and saves
  double mean_to_stop = 0;  // between failures of the whole machine
  double save = 0;          // what a save takes from the work
  double write = 0;         // from then on, in the background, until the save is durable
  double restart = 0;       // from a failure to work: noticing, starting, loading
  double interval = 0;      // of work between saves, about: the run is cut into equal stretches
  /// Saves of the whole run, one behind each stretch of work.
  int64_t saves() const;
  double stretch() const { return work / static_cast<double>(saves()); }
};

/// UserError naming what is impossible: numbers out of range, an interval below what a save takes
/// to become durable, a machine that fails faster than it restarts.
void check(const InterruptedRun& run);

}  // namespace megalith::goodput
