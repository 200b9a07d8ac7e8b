// SPDX-License-Identifier: Apache-2.0
// The stated bounds against long double libm (64-bit mantissa), and the edges one by one.
#include "math/elementary_double.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "math/random.h"

namespace megalith {
namespace {

/// Error in units of the last place of a double.
double ulps_of_double(double got, long double want) {
  return static_cast<double>(std::fabs(got - want) /
                             std::ldexp(1.0L, std::max(std::ilogb(want), -1022) - 52));
}

TEST(Elementary, DoubleFunctionsAreWithinOneUlp) {
  double log_error = 0, exp_error = 0, sin_error = 0, cos_error = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const PhiloxBlock block = philox(7, i, 0);
    const double u = uniform_open(block[0]), v = uniform_open(block[1]);
    for (const double x : {u, 1 + 0.01 * v - 0.005,
                           std::ldexp(u, static_cast<int>(2000 * v) - 1000), std::ldexp(u, -1060)})
      if (x != 1) log_error = std::max(log_error, ulps_of_double(elementary::log(x), logl(x)));
    for (const double x : {u - 0.5, 1400 * v - 700})
      exp_error = std::max(exp_error, ulps_of_double(elementary::exp(x), expl(x)));
    for (const double x : {u * 10 - 5, 2e5 * v - 1e5}) {
      sin_error = std::max(sin_error, ulps_of_double(elementary::sin(x), sinl(x)));
      cos_error = std::max(cos_error, ulps_of_double(elementary::cos(x), cosl(x)));
    }
  }
  EXPECT_LT(log_error, 1.0);
  EXPECT_LT(exp_error, 1.0);
  EXPECT_LT(sin_error, 1.0);
  EXPECT_LT(cos_error, 1.0);
}

TEST(Elementary, DoubleFunctionsKeepTheirEdges) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(elementary::log(1.0), 0.0);
  EXPECT_EQ(elementary::log(0.0), -kInf);
  EXPECT_EQ(elementary::log(kInf), kInf);
  EXPECT_TRUE(std::isnan(elementary::log(-1.0)));
  EXPECT_TRUE(std::isnan(elementary::log(std::nan(""))));
  EXPECT_EQ(elementary::exp(0.0), 1.0);
  EXPECT_EQ(elementary::exp(-kInf), 0.0);
  EXPECT_EQ(elementary::exp(-709.0), 0.0);
  EXPECT_GE(elementary::exp(-708.39), std::numeric_limits<double>::min());
  EXPECT_EQ(elementary::exp(710.0), kInf);
  EXPECT_LT(elementary::exp(709.78), kInf);
  EXPECT_TRUE(std::isnan(elementary::exp(std::nan(""))));
  EXPECT_EQ(elementary::cos(0.0), 1.0);
  EXPECT_EQ(elementary::sin(0.0), 0.0);
  EXPECT_LT(std::fabs(elementary::cos(M_PI) + 1.0), 0x1p-53);
  EXPECT_TRUE(std::isnan(elementary::sin(kInf)));
}

TEST(Elementary, SumsOfExponentialsAreThoseOfOneAfterAnother) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {-kInf, -800, 0, 30};
  for (uint64_t i = 0; i < 1000; ++i)
    x.push_back(static_cast<float>(40 * uniform_open(philox(8, i, 0)[0]) - 30));
  const double shift = 12.25;
  double sum = 0;
  for (const float each : x) sum += elementary::exp(static_cast<double>(each) - shift);
  EXPECT_EQ(elementary::sum_exp(x, shift), sum);
  EXPECT_EQ(elementary::sum_exp({}, shift), 0.0);
  EXPECT_TRUE(std::isnan(elementary::sum_exp(std::vector{0.0f, kInf, std::nanf("")}, shift)));
}

}  // namespace
}  // namespace megalith
