// SPDX-License-Identifier: Apache-2.0
#include "costs/wire_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megalith::costs {
namespace {

double log2_steps(int64_t ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

}  // namespace

GroupLink link_of(const clusters::Cluster& cluster, const Group& group) {
  GroupLink link{std::numeric_limits<double>::infinity(), 0};
  int64_t inside = 1;  // devices that the links so far join
  const clusters::Link* const outermost = &cluster.joining(group.span());
  for (const clusters::Link& tier : cluster.links) {
    const int64_t members = std::clamp<int64_t>(inside / group.stride, 1, group.ranks);
    const int64_t joined = tier.devices == 0 ? group.span() : tier.devices;
    if (joined / group.stride > 1 || &tier == outermost) {
      link.rate = std::min(link.rate, static_cast<double>(members) * tier.rate());
      link.latency = tier.latency_seconds;
    }
    if (&tier == outermost) break;
    inside = joined;
  }
  return link;
}

double all_gather_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const GroupLink link = link_of(cluster, group);
  const auto n = static_cast<double>(group.ranks);
  const double ring = (n - 1) * link.latency + (n - 1) / n * bytes / link.rate;
  const double tree = log2_steps(group.ranks) * link.latency + bytes / link.rate;
  return std::min(ring, tree);
}

double all_reduce_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  return 2 * all_gather_seconds(cluster, group, bytes);
}

double send_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const clusters::Link& link = cluster.joining(group.span());
  return link.latency_seconds + bytes / link.rate();
}

}  // namespace megalith::costs
