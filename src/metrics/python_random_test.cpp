// SPDX-License-Identifier: Apache-2.0
// Numbers that Python 3.11 printed.
#include "metrics/python_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megalith::metrics {
namespace {

using ::testing::ElementsAre;

TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom random(1234);
  EXPECT_EQ(random.uniform(), 0.9664535356921388);
  EXPECT_EQ(random.uniform(), 0.4407325991753527);
  EXPECT_EQ(random.uniform(), 0.007491470058587191);
  EXPECT_THAT(random.sample(10, 3), ElementsAre(9, 0, 1));
  EXPECT_THAT(random.sample(1000, 7), ElementsAre(100, 784, 363, 242, 17, 31, 807));
  std::vector<uint32_t> drawn(5);
  random.choices(50, drawn);
  EXPECT_THAT(drawn, ElementsAre(0, 32, 24, 23, 4));
}

TEST(PythonRandom, SeedsWithOneWordAndWithTwo) {
  EXPECT_EQ(PythonRandom(0).uniform(), 0.8444218515250481);
  PythonRandom random((uint64_t{1} << 40) + 7);
  EXPECT_EQ(random.below(0xffffffffU), 2635837658U);
  EXPECT_EQ(random.below(1000), 765U);
}

TEST(PythonRandom, Shuffles) {
  EXPECT_THAT(PythonRandom(42).shuffled(12), ElementsAre(7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10));
  EXPECT_THAT(PythonRandom(42).shuffled(1), ElementsAre(0));
  EXPECT_TRUE(PythonRandom(42).shuffled(0).empty());
}

}  // namespace
}  // namespace megalith::metrics
