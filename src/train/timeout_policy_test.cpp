// SPDX-License-Identifier: Apache-2.0
#include "train/timeout_policy.h"

#include <gtest/gtest.h>

namespace megalith::train {
namespace {

TEST(TimeoutPolicy, FitsTheSlowestStep) {
  TimeoutPolicy deadline(0);
  EXPECT_EQ(deadline.seconds(), 600);
  deadline.step_took(2);
  EXPECT_EQ(deadline.seconds(), 600);
  deadline.step_took(90);
  deadline.step_took(3);
  EXPECT_EQ(deadline.seconds(), 900);
}

TEST(TimeoutPolicy, IsTheRecipesWhereItSaysOne) {
  TimeoutPolicy deadline(2.5);
  deadline.step_took(90);
  EXPECT_EQ(deadline.seconds(), 2.5);
}

}  // namespace
}  // namespace megalith::train
