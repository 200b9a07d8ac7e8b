// SPDX-License-Identifier: Apache-2.0
#include "comm/timeout.h"

#include <gtest/gtest.h>

namespace megalith::comm {
namespace {

TEST(Timeout, EndsAfterItsSeconds) {
  Timeout timeout(2.5, 100);
  EXPECT_FALSE(timeout.expired(101));
  EXPECT_FALSE(timeout.expired(102));
  EXPECT_FALSE(timeout.expired(102.25));
  EXPECT_DOUBLE_EQ(timeout.next_check(), 102.5);
  EXPECT_TRUE(timeout.expired(102.5));
}

TEST(Timeout, TimeAsleepDoesNotCount) {
  Timeout timeout(10, 0);
  EXPECT_FALSE(timeout.expired(1));
  EXPECT_FALSE(timeout.expired(3600));  // stopped, and continued an hour later
  for (int second = 1; second < 8; ++second) EXPECT_FALSE(timeout.expired(3600 + second));
  EXPECT_TRUE(timeout.expired(3608));
}

TEST(Timeout, AHeartbeatRenewsIt) {
  Timeout timeout(2, 0);
  EXPECT_FALSE(timeout.expired(1));
  timeout.restart(2);
  EXPECT_FALSE(timeout.expired(2));
  EXPECT_FALSE(timeout.expired(3));
  EXPECT_FALSE(timeout.expired(3.75));
  EXPECT_TRUE(timeout.expired(4));
}

}  // namespace
}  // namespace megalith::comm
