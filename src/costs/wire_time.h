// SPDX-License-Identifier: Apache-2.0
// What a collective takes over the links of a cluster: latency and bandwidth (the alpha-beta model;
// Thakur, Rabenseifner & Gropp 2005), by the algorithms of NCCL (its src/graph/tuning.cc).
//
//   ring   n - 1 steps of 1/n of the bytes each, as many of them over an outer link as it joins
//          units, less one; an all-reduce goes round twice
//   tree   for all-reduces alone, there and back, all bytes in a pipeline: a chain through the
//          devices of a node, then log2 of the nodes
//
// So short all-reduces over many nodes take a tree, and nothing inside a node is shorter than its
// chain.
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
  double ring = 0;  // seconds of the steps of a ring, once round
  double tree = 0;  // and of the way up a tree
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
