// SPDX-License-Identifier: Apache-2.0
// Numbers that Python 3.11 printed for the formulas of lm-eval.
#include "metrics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace megalith::metrics {
namespace {

const std::vector<double> kLogs = {-1.5, -0.25, -3.0, -2.0, -0.5, -4.0, -1.0};

const auto perplexity_of = [](std::span<const uint32_t> drawn) {
  std::vector<double> values;
  for (const uint32_t i : drawn) values.push_back(kLogs[i]);
  return perplexity(values);
};

const auto mean_of = [](std::span<const uint32_t> drawn) {
  std::vector<double> values;
  for (const uint32_t i : drawn) values.push_back(kLogs[i]);
  return mean(values);
};

TEST(Statistics, AreThoseOfTheFormulas) {
  EXPECT_DOUBLE_EQ(perplexity(kLogs), 5.754602676005731);
  EXPECT_DOUBLE_EQ(mean_error(kLogs), 0.5146658647908877);
  EXPECT_EQ(median(kLogs), -1.5);
  EXPECT_EQ(median(std::vector<double>{1, 2, 3, 4}), 3);  // the upper of two
  EXPECT_DOUBLE_EQ(weighted_mean(std::vector<Weighted>{{-6, 2}, {-4, 3}}), -2);
  EXPECT_DOUBLE_EQ(pooled_error(std::vector<double>{0.1, 0.02}, std::vector<int64_t>{10, 100}),
                   0.020225995873897264);
}

/// For values 0 and 1, sqrt(p (1 - p) / (n - 1)).
TEST(Statistics, ErrorOfAShareIsThatOfItsFormula) {
  std::vector<double> values(300, 0.0);
  for (size_t i = 0; i < 111; ++i) values[i * 2] = 1;
  EXPECT_NEAR(mean_error(values), std::sqrt(0.37 * 0.63 / 299), 1e-15);
}

TEST(Bootstrap, DrawsTheResamplesOfTheHarnessOnAnyThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    // Two runs of 1000: what does not fill a run is left out.
    EXPECT_DOUBLE_EQ(*bootstrap_error(7, 2500, pool, perplexity_of), 3.385541456499969);
    EXPECT_DOUBLE_EQ(*bootstrap_error(7, 30, pool, mean_of), 0.4253246610807809);
    EXPECT_FALSE(bootstrap_error(7, 0, pool, mean_of));
    EXPECT_FALSE(bootstrap_error(7, 1, pool, mean_of));
  }
}

TEST(PairedDifference, IsTheSignTestOfThoseThatDiffer) {
  std::vector<double> first(40, 1.0), second(40, 1.0);
  for (size_t i = 0; i < 11; ++i) first[i] = 0;    // the second alone is right
  for (size_t i = 20; i < 23; ++i) second[i] = 0;  // the first alone is
  const PairedDifference found = paired_difference(first, second);
  EXPECT_DOUBLE_EQ(found.difference, 0.2);
  EXPECT_EQ(found.first_better, 3);
  EXPECT_EQ(found.second_better, 11);
  EXPECT_NEAR(found.p, 0.057373046875, 1e-12);  // 2 P(at most 3 of 14)
  EXPECT_EQ(paired_difference(first, first).p, 1);
  EXPECT_EQ(paired_difference(first, first).error, 0);
}

}  // namespace
}  // namespace megalith::metrics
