// SPDX-License-Identifier: Apache-2.0
// What moving bytes between ranks takes here.
#pragma once

#include "clusters/cluster.h"

namespace megalith::trials {

struct FittedLink {
  double latency_seconds = 0;  // of a call
  double bandwidth = 0;        // bytes per second that a rank sends, while all do
  double median_error = 0;     // of the fit, relative
};

/// Gathers and exchanges of 4 KiB to 4 MiB between `ranks` threads (at least two), each the fastest
/// of several.
FittedLink measure_link(int ranks, int samples);

}  // namespace megalith::trials
