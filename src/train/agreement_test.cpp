// SPDX-License-Identifier: Apache-2.0
#include "train/agreement.h"

#include <gtest/gtest.h>

#include <csignal>

#include "comm/backends.h"

namespace megalith::train {
namespace {

TEST(Agreement, AnyRanksSignalAndTheFirstRanksClock) {
  std::vector<Agreed> seen(3);
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const int rank = world.rank();
    seen[static_cast<size_t>(rank)] = agree(world, {rank == 2 ? SIGTERM : 0, 10.0 + rank});
  });
  for (const Agreed& agreed : seen) {
    EXPECT_EQ(agreed.signal, SIGTERM);
    EXPECT_EQ(agreed.elapsed_seconds, 10.0);
    EXPECT_TRUE(agreed.finite);
  }
}

TEST(Agreement, WhatOneRankSpoiltAllKnow) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    EXPECT_FALSE(agree(world, {0, 0, world.rank() == 0}).finite);
  });
}

TEST(Agreement, TwoSignalsAreOne) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const Agreed agreed = agree(world, {world.rank() == 0 ? SIGINT : SIGTERM, 0});
    EXPECT_EQ(agreed.signal, SIGTERM);  // the larger, on both
  });
}

}  // namespace
}  // namespace megalith::train
