// SPDX-License-Identifier: Apache-2.0
#include "costs/wire_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megalith::costs {
namespace {

double ring_seconds(const GroupLink& link, const Group& group, double bytes) {
  const auto n = static_cast<double>(group.ranks);
  return link.ring + (n - 1) / n * bytes / link.rate;
}

}  // namespace

GroupLink link_of(const clusters::Cluster& cluster, const Group& group) {
  GroupLink link{.rate = std::numeric_limits<double>::infinity()};
  int64_t members = 1;  // of the group in a unit that the links so far join
  const clusters::Link* const outermost = &cluster.joining(group.span());
  for (const clusters::Link& tier : cluster.links) {
    const bool is_last = &tier == outermost;
    const int64_t joined =
        is_last ? group.ranks : std::clamp<int64_t>(tier.devices / group.stride, 1, group.ranks);
    if (joined > 1 || is_last)
      link.rate = std::min(link.rate, static_cast<double>(members) * tier.rate());
    // Units of this tier and of the one inside; a ring goes from each to the next.
    const double inner = std::ceil(static_cast<double>(group.ranks) / static_cast<double>(members));
    const double outer = std::ceil(static_cast<double>(group.ranks) / static_cast<double>(joined));
    link.ring += (inner - outer) * tier.latency_seconds;
    const double units = std::ceil(static_cast<double>(joined) / static_cast<double>(members));
    const bool is_node =
        (tier.devices == 0 ? cluster.devices() : tier.devices) <= cluster.node.devices;
    link.tree += (is_node ? units - 1 : std::ceil(std::log2(units))) * tier.latency_seconds;
    if (is_last) break;
    members = joined;
  }
  return link;
}

double all_gather_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  return ring_seconds(link_of(cluster, group), group, bytes);
}

double all_reduce_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const GroupLink link = link_of(cluster, group);
  return 2 * std::min(ring_seconds(link, group, bytes), link.tree + bytes / link.rate);
}

double send_seconds(const clusters::Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const clusters::Link& link = cluster.joining(group.span());
  return link.latency_seconds + bytes / link.rate();
}

}  // namespace megalith::costs
