// SPDX-License-Identifier: Apache-2.0
// What a collective takes over the links of a cluster: latency and bandwidth (the alpha-beta model;
// Thakur, Rabenseifner & Gropp 2005), by the better of two algorithms.
//
//   ring   n - 1 steps of 1/n of the bytes each
//   tree   log2 n steps there and back, all bytes in a pipeline
#pragma once

#include <cstdint>

#include "clusters/cluster.h"

namespace megalith::costs {

/// Devices whose ranks are `stride` apart, in a cluster where ranks fill the links from the inside.
struct Group {
  int64_t ranks = 1;
  int64_t stride = 1;
  int64_t span() const { return ranks * stride; }
};

/// What the group gets of the links it runs over. A group with several members inside a unit of the
/// inner link leaves it through the adapters of all of them, so a ring of it is as fast as these
/// together, though no faster than the inner link.
struct GroupLink {
  double rate = 0;  // bytes per second of one device, one way
  double latency = 0;
};
GroupLink link_of(const clusters::Cluster& cluster, const Group& group);

/// Seconds; `bytes` are of the whole, that every rank has at the end (gather) or at the beginning
/// (scatter). 0 for a group of one.
double all_gather_seconds(const clusters::Cluster& cluster, const Group& group, double bytes);
inline double reduce_scatter_seconds(const clusters::Cluster& cluster, const Group& group,
                                     double bytes) {
  return all_gather_seconds(cluster, group, bytes);
}
double all_reduce_seconds(const clusters::Cluster& cluster, const Group& group, double bytes);
/// From one rank of a group to the next.
double send_seconds(const clusters::Cluster& cluster, const Group& group, double bytes);

}  // namespace megalith::costs
