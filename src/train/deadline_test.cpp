// SPDX-License-Identifier: Apache-2.0
#include "train/deadline.h"

#include <gtest/gtest.h>

namespace megalith::train {
namespace {

TEST(Deadline, FitsTheSlowestStep) {
  Deadline deadline(0);
  EXPECT_EQ(deadline.seconds(), 600);
  deadline.step_took(2);
  EXPECT_EQ(deadline.seconds(), 600);
  deadline.step_took(90);
  deadline.step_took(3);
  EXPECT_EQ(deadline.seconds(), 900);
}

TEST(Deadline, IsTheRecipesWhereItSaysOne) {
  Deadline deadline(2.5);
  deadline.step_took(90);
  EXPECT_EQ(deadline.seconds(), 2.5);
}

}  // namespace
}  // namespace megalith::train
