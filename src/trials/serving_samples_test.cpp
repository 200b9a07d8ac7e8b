// SPDX-License-Identifier: Apache-2.0
#include "trials/serving_samples.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megalith::trials {
namespace {

using clusters::ProductType;

/// Of a product of K x N weights of two bytes by so many rows, on a machine that reads 10 GB/s and
/// multiplies at 100 GFLOP/s, whichever takes longer.
KernelSample product(double rows, double inputs, double outputs) {
  KernelSample s{"linear_forward.q8_0", ProductType::bf16, 1};
  s.flops = 2 * rows * inputs * outputs;
  s.bytes = 2 * (inputs * outputs + rows * (inputs + outputs));
  s.seconds = std::max(s.flops / 100e9, s.bytes / 10e9);
  return s;
}

std::vector<KernelSample> products() {
  std::vector<KernelSample> samples;
  for (const double inputs : {512., 1024., 2048.})
    for (const double outputs : {1024., 3072.})
      for (const double rows : {1., 2., 4., 8., 16., 64., 128., 256.})
        samples.push_back(product(rows, inputs, outputs));
  return samples;
}

/// One row is bound by memory and many by products: one rate for both would be neither.
TEST(ServingSamples, OneRowAndManyHaveRatesOfTheirOwn) {
  const std::vector<FittedRate> rates = fit_serving_rates(products());
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_GT(rates[0].rate.most_intensity, 1);
  EXPECT_GT(rates[1].rate.most_intensity, rates[0].rate.most_intensity);
  EXPECT_EQ(rates[2].rate.most_intensity, 0);
  clusters::Cluster cluster;
  for (const FittedRate& rate : rates) cluster.device.serving.push_back(rate.rate);
  for (const double rows : {1., 256.}) {
    const KernelSample s = product(rows, 768, 2304);
    const clusters::KernelRate* const rate =
        cluster.find_serving(s.name, s.type, s.flops / s.bytes);
    ASSERT_NE(rate, nullptr);
    EXPECT_NEAR(rate->seconds(1, s.flops, s.bytes) / s.seconds, 1, 0.02) << rows;
  }
  EXPECT_LT(rates[0].median_error, 0.01);
  EXPECT_LT(rates[2].median_error, 0.01);
}

/// Kernels whose operations a byte are always the same, or that have few samples, have one rate.
TEST(ServingSamples, OthersHaveOne) {
  std::vector<KernelSample> samples;
  for (const double bytes : {1e4, 1e5, 1e6, 1e7})
    samples.push_back({"rms_norm_forward", ProductType::bf16, 2, 3 * bytes, bytes, bytes / 5e9});
  samples.push_back({std::string(clusters::kOutsideKernels), ProductType::bf16, 40, 0, 0, 8e-5});
  samples.push_back({std::string(clusters::kOutsideKernels), ProductType::bf16, 80, 0, 4e5, 2e-4});
  const std::vector<FittedRate> rates = fit_serving_rates(samples);
  ASSERT_EQ(rates.size(), 2u);
  for (const FittedRate& rate : rates) EXPECT_EQ(rate.rate.most_intensity, 0);
  EXPECT_EQ(rates[0].rate.name, clusters::kOutsideKernels);
  EXPECT_NEAR(rates[0].rate.seconds(40, 0, 0), 8e-5, 1e-9);
}

}  // namespace
}  // namespace megalith::trials
