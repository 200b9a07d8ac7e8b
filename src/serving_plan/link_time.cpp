// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/link_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megalith::serving_plan {

double all_gather_seconds(const clusters::Cluster& cluster, int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const clusters::Link& outermost = cluster.joining(ranks);
  double rate = std::numeric_limits<double>::infinity();
  int64_t inside = 1;  // devices that the links so far join
  for (const clusters::Link& link : cluster.links) {
    rate = std::min(rate, static_cast<double>(std::min(inside, ranks)) * link.rate());
    if (&link == &outermost) break;
    inside = link.devices;
  }
  const auto n = static_cast<double>(ranks);
  const double ring = (n - 1) * outermost.latency_seconds + (n - 1) / n * bytes / rate;
  const double tree = std::ceil(std::log2(n)) * outermost.latency_seconds + bytes / rate;
  return std::min(ring, tree);
}

}  // namespace megalith::serving_plan
