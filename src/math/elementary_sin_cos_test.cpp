// SPDX-License-Identifier: Apache-2.0
// Sine and cosine against long double libm (64-bit mantissa), dense and where they are hardest: at
// the floats nearest to multiples of pi/2. And a digest of the bits, the same on every machine.
#include "math/elementary_sin_cos.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <span>
#include <vector>

#include "base/file.h"
#include "math/random.h"

namespace megalith {
namespace {

constexpr double kBound = 0.5002;  // elementary_sin_cos.h
constexpr float kLargest = 0x1p31f;

double ulps(float got, long double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 23));
}

/// The larger error of the two.
double error_at(float x) {
  const elementary::SinCos got = elementary::sin_cos(x);
  const auto wide = static_cast<long double>(x);
  return std::max(ulps(got.sin, sinl(wide)), ulps(got.cos, cosl(wide)));
}

TEST(SinCos, AreWithinTheirBoundAtEverySize) {
  double largest = 0;
  for (uint32_t b = std::bit_cast<uint32_t>(0x1p-40f); b <= std::bit_cast<uint32_t>(kLargest);
       b += 1999) {
    const float x = std::bit_cast<float>(b);
    largest = std::max({largest, error_at(x), error_at(-x)});
  }
  EXPECT_LT(largest, kBound);
}

TEST(SinCos, AreWithinTheirBoundNearestToTheMultiplesOfAQuarterTurn) {
  double largest = 0;
  for (uint64_t i = 1; i < 200000; ++i) {
    // All small multiples, then some of every size.
    const auto n = i < 60000 ? static_cast<double>(i)
                             : std::floor(std::ldexp(uniform_open(philox(3, i, 0)[0]),
                                                     16 + static_cast<int>(i % 15)));
    const auto x = static_cast<float>(static_cast<long double>(n) * (M_PIl / 2));
    largest = std::max(largest, error_at(x));
  }
  EXPECT_LT(largest, kBound);
}

TEST(SinCos, KeepTheirEdgesAndSymmetry) {
  EXPECT_EQ(elementary::sin(0.0f), 0.0f);
  EXPECT_EQ(elementary::cos(0.0f), 1.0f);
  EXPECT_EQ(elementary::sin(1e-40f), 1e-40f);
  for (const float x :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(elementary::sin(x)));
    EXPECT_TRUE(std::isnan(elementary::cos(-x)));
  }
  for (uint32_t b = 1; b < std::bit_cast<uint32_t>(kLargest); b += 65537) {
    const float x = std::bit_cast<float>(b);
    ASSERT_EQ(elementary::sin(-x), -elementary::sin(x)) << x;
    ASSERT_EQ(elementary::cos(-x), elementary::cos(x)) << x;
  }
}

TEST(SinCos, BitsAreTheSameOnEveryMachine) {
  std::vector<elementary::SinCos> values;
  for (uint32_t b = 0; b <= std::bit_cast<uint32_t>(kLargest); b += 65537)
    values.push_back(elementary::sin_cos(std::bit_cast<float>(b)));
  EXPECT_EQ(sha256(std::as_bytes(std::span(values))).substr(0, 16), "d6127b1cf88bb6c1");
}

}  // namespace
}  // namespace megalith
