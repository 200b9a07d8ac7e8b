// SPDX-License-Identifier: Apache-2.0
#include "sizing/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace megalith::sizing {
namespace {

using ::testing::HasSubstr;

TEST(Budget, CountsHaveUnits) {
  EXPECT_EQ(parse_count("300B", "--tokens"), 300e9);
  EXPECT_EQ(parse_count("1.4T", "--tokens"), 1.4e12);
  EXPECT_EQ(parse_count("512K", "--tokens"), 512e3);
  EXPECT_EQ(parse_count("2M", "--tokens"), 2e6);
  EXPECT_EQ(parse_count("3e11", "--tokens"), 3e11);
  EXPECT_EQ(parse_count("17", "--tokens"), 17);
}

TEST(Budget, WhatIsNoCountIsRefusedByOption) {
  for (const char* text : {"", "B", "300b", "300 B", "300BB", "-1", "0", "nan", "inf", "1e19", "x",
                           "1.5.2", "300GB", "1e999"}) {
    try {
      parse_count(text, "--tokens");
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--tokens: '")) << text;
    }
  }
}

TEST(Budget, WhatIsNoBudgetIsRefusedByOption) {
  const Budget good{1024, 34, 300e9, 140e12};
  check(good);
  const auto refused = [&](double Budget::*field, double value) -> std::string {
    Budget bad = good;
    bad.*field = value;
    try {
      check(bad);
    } catch (const UserError& error) {
      return error.what();
    }
    return "taken";
  };
  for (const double value : {0.0, -1.0, 1e30, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(refused(&Budget::gpus, value), HasSubstr("--gpus is"));
    EXPECT_THAT(refused(&Budget::days, value), HasSubstr("--days is"));
    EXPECT_THAT(refused(&Budget::tokens, value), HasSubstr("--tokens is"));
    EXPECT_THAT(refused(&Budget::flops, value), HasSubstr("--tflops is"));
  }
  EXPECT_THAT(refused(&Budget::gpus, 1.5), HasSubstr("give a whole number"));
}

}  // namespace
}  // namespace megalith::sizing
