// SPDX-License-Identifier: Apache-2.0
// The C library's %a is the oracle; the way back must give the same bits.
#include "report/hex_float.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "math/random.h"

namespace megalith::report {
namespace {

std::string printf_a(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%a", value);
  return text.data();
}

TEST(HexFloat, GivesTheKnownSpellings) {
  EXPECT_EQ(hex_float(10.5), "0x1.5p+3");
  EXPECT_EQ(hex_float(1), "0x1p+0");
  EXPECT_EQ(hex_float(0.0), "0x0p+0");
  EXPECT_EQ(hex_float(-0.0), "-0x0p+0");
  EXPECT_EQ(hex_float(-0.1), "-0x1.999999999999ap-4");
  EXPECT_EQ(hex_float(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(hex_float(-std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(hex_float(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(hex_float(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(HexFloat, AgreesWithTheCLibraryAndReadsBackTheSameBits) {
  for (uint64_t i = 0; i < 20000; ++i) {
    uint64_t bits = random_key(random_key(1, "hex"), i);
    if (i % 4 == 1) bits &= ~uint64_t{0} << (i % 52);                          // short mantissas
    if (i % 4 == 2) bits &= 0x800FFFFFFFFFFFFFu;                               // subnormal numbers
    if (i % 4 == 3) bits = std::bit_cast<uint64_t>(double(float(i) * 0.37f));  // widened floats
    const auto value = std::bit_cast<double>(bits);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(hex_float(value), printf_a(value));
    const std::optional<double> back = parse_hex_float(hex_float(value));
    ASSERT_TRUE(back);
    ASSERT_EQ(std::bit_cast<uint64_t>(*back), bits) << hex_float(value);
  }
}

TEST(HexFloat, RefusesWhatIsNotOne) {
  for (const char* text : {"", "0x", "1p+0", "0x1p+0 ", " 0x1p+0", "0x1p+0x", "--0x1p+0", "0x-1p+0",
                           "0xinf", "0xnan", "infinity", "-nan", "10.5", "0x1p+99999"}) {
    EXPECT_FALSE(parse_hex_float(text)) << '"' << text << '"';
  }
  EXPECT_TRUE(std::isnan(*parse_hex_float("nan")));
  EXPECT_EQ(*parse_hex_float("-inf"), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace megalith::report
