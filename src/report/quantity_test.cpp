// SPDX-License-Identifier: Apache-2.0
// The edges of units, where rounding could write "1024 KiB".
#include "report/quantity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace megalith::report {
namespace {

TEST(Quantity, BytesChooseTheUnitAfterRounding) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(10235), "10.0 KiB");
  EXPECT_EQ(human_bytes(1000 * 1024), "1000 KiB");
  EXPECT_EQ(human_bytes(int64_t{1} << 31), "2.00 GiB");
  EXPECT_EQ(human_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(human_bytes(INT64_MAX), "8192 PiB");
}

TEST(Quantity, CountsChooseTheUnitAfterRounding) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(999.9), "1.00 k");
  EXPECT_EQ(human_count(999949), "1.00 M");
  EXPECT_EQ(human_count(12345), "12.3 k");
  EXPECT_EQ(human_count(124439808), "124 M");
  EXPECT_EQ(human_count(1.75e11), "175 B");
  EXPECT_EQ(human_count(NAN), "unknown");
}

TEST(Quantity, SecondsNeverShowSixty) {
  EXPECT_EQ(human_seconds(0), "0.00 s");
  EXPECT_EQ(human_seconds(9.996), "10.0 s");
  EXPECT_EQ(human_seconds(59.96), "1 min 00 s");
  EXPECT_EQ(human_seconds(232), "3 min 52 s");
  EXPECT_EQ(human_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(human_seconds(5 * 3600 + 7 * 60), "5 h 07 min");
  EXPECT_EQ(human_seconds(86400 - 1), "1 d 00 h");
  EXPECT_EQ(human_seconds(-1), "unknown");
}

TEST(Quantity, GroupsOfThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace megalith::report
