// SPDX-License-Identifier: Apache-2.0
// What a collective of devices with consecutive ranks takes (the alpha-beta model; Thakur,
// Rabenseifner & Gropp 2005), by the better of a ring, n - 1 steps of 1/n of the bytes each, and a
// tree, log2 n steps with all bytes in a pipeline.
#pragma once

#include "clusters/cluster.h"

namespace megalith::serving_plan {

/// Seconds until each of `ranks` devices has all `bytes`; 0 for one. A group that fills the units
/// of an inner link leaves them through the adapters of all its devices there.
double all_gather_seconds(const clusters::Cluster& cluster, int64_t ranks, double bytes);

}  // namespace megalith::serving_plan
