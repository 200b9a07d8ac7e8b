// SPDX-License-Identifier: Apache-2.0
#include "base/integer.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace megalith {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TEST(Integer, CheckedArithmeticRefusesOverflow) {
  EXPECT_EQ(checked_multiply(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_EQ(checked_multiply(kLargest, 2), std::nullopt);
  EXPECT_EQ(checked_multiply(std::numeric_limits<int64_t>::min(), -1), std::nullopt);
  EXPECT_EQ(checked_add(kLargest, 1), std::nullopt);
  EXPECT_EQ(checked_add(kLargest, -1), kLargest - 1);
}

TEST(Integer, DivisionRoundsAsItsNameSays) {
  EXPECT_EQ(ceil_div(7, 4), 2);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(round_up(7, 4), 8);
  EXPECT_EQ(exact_div(12, 4), 3);
  EXPECT_THROW(exact_div(7, 4), InternalError);
  EXPECT_THROW(exact_div(7, 0), InternalError);
}

TEST(Integer, NarrowThrowsWhatDoesNotFit) {
  EXPECT_EQ(narrow<int8_t>(127), 127);
  EXPECT_THROW(narrow<int8_t>(128), InternalError);
  EXPECT_THROW(narrow<uint32_t>(-1), InternalError);
}

TEST(Check, NamesTheConditionAndTheValues) {
  try {
    const int rows = 3;
    MEGA_CHECK_EQ(rows, 4);
    FAIL() << "nothing thrown";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("rows == 4: 3 against 4"), std::string::npos);
    EXPECT_EQ(error.code(), ExitCode::failure);
  }
  EXPECT_NO_THROW(MEGA_CHECK(true));
  EXPECT_THROW(MEGA_CHECK(false, "{} of {}", 1, 2), InternalError);
}

TEST(Clock, WritesIsoTime) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso_time(1769862896.9), "2026-01-31T12:34:56Z");
  const double before = monotonic_seconds();
  EXPECT_LE(before, monotonic_seconds());
}

}  // namespace
}  // namespace megalith
