// SPDX-License-Identifier: Apache-2.0
#include "trials/rate_fit.h"

#include <gtest/gtest.h>

namespace megalith::trials {
namespace {

using clusters::ProductType;

std::vector<KernelSample> samples_of(double call, double flops, double bandwidth) {
  std::vector<KernelSample> samples;
  for (const double rows : {16.0, 128.0, 1000.0}) {
    for (const double columns : {32.0, 512.0}) {
      for (const double depth : {64.0, 768.0}) {
        KernelSample s{"linear_forward",
                       ProductType::f32,
                       3,
                       6 * rows * columns * depth,
                       12 * (rows * depth + columns * depth + rows * columns),
                       0};
        s.seconds = s.calls * call + s.flops / flops + s.bytes / bandwidth;
        samples.push_back(s);
      }
    }
  }
  return samples;
}

TEST(RateFit, FindsTheCostsThatSamplesWereMadeWith) {
  const FittedRate fitted = fit_rate(samples_of(2e-6, 80e9, 20e9));
  EXPECT_NEAR(fitted.rate.call_seconds, 2e-6, 1e-9);
  EXPECT_NEAR(fitted.rate.flops, 80e9, 1e5);
  EXPECT_NEAR(fitted.rate.bandwidth, 20e9, 1e5);
  EXPECT_LT(fitted.median_error, 1e-6);
  EXPECT_EQ(fitted.samples, 12);
}

/// What would be negative is left out, and the rest fitted without it.
TEST(RateFit, NoCostIsNegative) {
  std::vector<KernelSample> samples = samples_of(2e-6, 80e9, 20e9);
  for (KernelSample& s : samples) s.seconds = s.flops / 80e9 - 1e-12 * s.bytes;
  const FittedRate fitted = fit_rate(samples);
  EXPECT_GE(fitted.rate.call_seconds, 0);
  EXPECT_EQ(fitted.rate.bandwidth, 0);
  EXPECT_NEAR(fitted.rate.flops, 80e9, 4e9);
}

TEST(RateFit, AColumnOfZerosIsNoObstacle) {
  std::vector<KernelSample> samples = samples_of(1e-6, 80e9, 20e9);
  for (KernelSample& s : samples) {
    s.flops = 0;
    s.seconds = s.calls * 1e-6 + s.bytes / 20e9;
  }
  const FittedRate fitted = fit_rate(samples);
  EXPECT_EQ(fitted.rate.flops, 0);
  EXPECT_NEAR(fitted.rate.bandwidth, 20e9, 1e5);
  EXPECT_NEAR(fitted.rate.call_seconds, 1e-6, 1e-10);
}

TEST(RateFit, KernelsAndTypesAreFittedApart) {
  std::vector<KernelSample> samples = samples_of(2e-6, 80e9, 20e9);
  for (KernelSample s : samples_of(1e-6, 160e9, 20e9)) {
    s.type = ProductType::bf16;
    samples.push_back(s);
  }
  samples.push_back({"fill", ProductType::f32, 1, 0, 4096, 1e-6});
  samples.push_back({"fill", ProductType::f32, 1, 0, 4096, 0});  // too short to be seen
  const std::vector<FittedRate> rates = fit_rates(samples);
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_EQ(rates[0].rate.name, "fill");
  EXPECT_EQ(rates[0].samples, 1);
  EXPECT_NEAR(rates[1].rate.flops, 80e9, 1e5);
  EXPECT_NEAR(rates[2].rate.flops, 160e9, 1e5);
}

}  // namespace
}  // namespace megalith::trials
