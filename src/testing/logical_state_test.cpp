// SPDX-License-Identifier: Apache-2.0
#include "testing/logical_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace megalith::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

/// [2, 4] counting up, whole or cut into columns {0, 1} and {2, 3}.
constexpr std::array<float, 8> kWhole{0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<float, 4> kLeft{0, 1, 4, 5}, kRight{2, 3, 6, 7};
const Shape kShape{2, 4};

TEST(LogicalState, ShardsEqualTheWhole) {
  LogicalState whole, shards;
  whole.add("w", DType::f32, kShape, Shard::whole(kShape), kWhole.data());
  shards.add("w", DType::f32, kShape, Shard::part(kShape, 1, 1, 2), kRight.data());
  EXPECT_THAT(shards.faults(), SizeIs(1));  // the left half is missing
  EXPECT_NE(difference(whole, shards), "");
  shards.add("w", DType::f32, kShape, Shard::part(kShape, 1, 0, 2), kLeft.data());
  EXPECT_THAT(shards.faults(), IsEmpty());
  EXPECT_EQ(difference(whole, shards), "");
  EXPECT_EQ(whole.digest(), shards.digest());
}

TEST(LogicalState, OneBitIsADifference) {
  LogicalState a, b;
  auto moved = kWhole;
  moved[5] = std::nextafter(5.0f, 6.0f);
  a.add("w", DType::f32, kShape, Shard::whole(kShape), kWhole.data());
  b.add("w", DType::f32, kShape, Shard::whole(kShape), moved.data());
  EXPECT_EQ(difference(a, b), "w[5] differs");
  EXPECT_NE(a.digest(), b.digest());
}

TEST(LogicalState, ReplicasThatDisagreeAreAFault) {
  LogicalState state;
  auto moved = kWhole;
  moved[7] = -7;
  state.add("w", DType::f32, kShape, Shard::whole(kShape), kWhole.data());
  state.add("w", DType::f32, kShape, Shard::whole(kShape), moved.data());
  EXPECT_THAT(state.faults(), SizeIs(1));
}

TEST(LogicalState, AMissingTensorIsADifference) {
  LogicalState a, b;
  a.add("w", DType::f32, kShape, Shard::whole(kShape), kWhole.data());
  EXPECT_EQ(difference(a, b), "w is missing on the right");
  EXPECT_EQ(difference(b, a), "w is missing on the left");
}

}  // namespace
}  // namespace megalith::testing
