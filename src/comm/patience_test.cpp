// SPDX-License-Identifier: Apache-2.0
#include "comm/patience.h"

#include <gtest/gtest.h>

namespace megalith::comm {
namespace {

TEST(Patience, EndsAfterItsSeconds) {
  Patience patience(2.5, 100);
  EXPECT_FALSE(patience.ends(101));
  EXPECT_FALSE(patience.ends(102));
  EXPECT_FALSE(patience.ends(102.25));
  EXPECT_DOUBLE_EQ(patience.next(), 102.5);
  EXPECT_TRUE(patience.ends(102.5));
}

TEST(Patience, TimeAsleepDoesNotCount) {
  Patience patience(10, 0);
  EXPECT_FALSE(patience.ends(1));
  EXPECT_FALSE(patience.ends(3600));  // stopped, and continued an hour later
  for (int second = 1; second < 8; ++second) EXPECT_FALSE(patience.ends(3600 + second));
  EXPECT_TRUE(patience.ends(3608));
}

TEST(Patience, ASignOfLifeRenewsIt) {
  Patience patience(2, 0);
  EXPECT_FALSE(patience.ends(1));
  patience.renew(2);
  EXPECT_FALSE(patience.ends(2));
  EXPECT_FALSE(patience.ends(3));
  EXPECT_FALSE(patience.ends(3.75));
  EXPECT_TRUE(patience.ends(4));
}

}  // namespace
}  // namespace megalith::comm
