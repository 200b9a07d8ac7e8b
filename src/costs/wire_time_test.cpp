// SPDX-License-Identifier: Apache-2.0
#include "costs/wire_time.h"

#include <gtest/gtest.h>

namespace megalith::costs {
namespace {

clusters::Cluster two_tiers() {
  clusters::Cluster c;
  c.node = {.devices = 8, .count = 16};
  c.links = {{.name = "inner", .devices = 8, .bandwidth = 200e9, .latency_seconds = 1e-6},
             {.name = "outer", .devices = 0, .bandwidth = 20e9, .latency_seconds = 4e-6}};
  return c;
}

TEST(WireTime, AGroupInsideANodeHasTheInnerLink) {
  const clusters::Cluster c = two_tiers();
  EXPECT_EQ(link_of(c, {8, 1}).rate, 200e9);
  EXPECT_EQ(link_of(c, {4, 2}).rate, 200e9);
  // Ring: 7 steps of an eighth.
  EXPECT_DOUBLE_EQ(all_gather_seconds(c, {8, 1}, 8e9), 7e-6 + 7e9 / 200e9);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(c, {8, 1}, 8e9), 2 * (7e-6 + 7e9 / 200e9));
  EXPECT_EQ(all_gather_seconds(c, {1, 1}, 8e9), 0);
}

TEST(WireTime, AGroupOverNodesHasTheAdaptersOfItsMembers) {
  const clusters::Cluster c = two_tiers();
  // One member of a node, two, eight: but never faster than inside.
  EXPECT_EQ(link_of(c, {16, 8}).rate, 20e9);
  EXPECT_EQ(link_of(c, {32, 4}).rate, 40e9);
  EXPECT_EQ(link_of(c, {128, 1}).rate, 160e9);
  clusters::Cluster fast = c;
  fast.links[1].bandwidth = 100e9;
  EXPECT_EQ(link_of(fast, {128, 1}).rate, 200e9);
}

/// NCCL's trees join nodes; inside of one they are a chain, no shorter than its ring.
TEST(WireTime, ShortSumsOverNodesGoOverATree) {
  const clusters::Cluster c = two_tiers();
  EXPECT_NEAR(all_reduce_seconds(c, {128, 1}, 8), 2 * (7 * 1e-6 + 4 * 4e-6), 1e-9);  // 16 nodes
  EXPECT_NEAR(all_reduce_seconds(c, {16, 8}, 8), 2 * 4 * 4e-6, 1e-9);  // one member of a node each
  EXPECT_NEAR(all_reduce_seconds(c, {8, 1}, 8), 2 * 7 * 1e-6, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(c, {128, 1}, 8e9), 2 * 8e9 / 160e9, 2e-3);  // bytes decide
}

/// Of the 127 steps of a ring over 16 nodes of 8 devices 15 are between nodes.
TEST(WireTime, StepsOfARingAreOfTheLinksTheyGoOver) {
  const clusters::Cluster c = two_tiers();
  EXPECT_NEAR(all_gather_seconds(c, {128, 1}, 8), 112 * 1e-6 + 15 * 4e-6, 1e-9);
  EXPECT_NEAR(all_gather_seconds(c, {32, 4}, 8), 16 * 1e-6 + 15 * 4e-6, 1e-9);
  EXPECT_NEAR(all_gather_seconds(c, {16, 8}, 8), 15 * 4e-6, 1e-9);
}

TEST(WireTime, OversubscriptionDividesTheOuterLink) {
  clusters::Cluster c = two_tiers();
  const double before = send_seconds(c, {16, 8}, 1e9);
  c.links[1].oversubscription = 2;
  EXPECT_NEAR(send_seconds(c, {16, 8}, 1e9), 2 * before, 1e-5);
}

}  // namespace
}  // namespace megalith::costs
