// SPDX-License-Identifier: Apache-2.0
// What a little more of something would buy.
#pragma once

#include <string>
#include <vector>

#include "clusters/cluster.h"
#include "engine/settings.h"

namespace megalith::search {

struct Sensitivity {
  std::string change;  // "10 % more bandwidth of NVLink: 330 GB/s"
  double seconds = 0;  // of a step then
};

/// The step of `settings` with a tenth more of each rate of the cluster, one at a time.
std::vector<Sensitivity> sensitivities_of(const engine::Settings& settings,
                                          const clusters::Cluster& cluster);

}  // namespace megalith::search
