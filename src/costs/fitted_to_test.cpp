// SPDX-License-Identifier: Apache-2.0
#include "costs/fitted_to.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "costs/pattern_search.h"

namespace megalith::costs {
namespace {

clusters::Cluster a100(const std::string& file = "a100_80gb.yaml") {
  return clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) / "recipes/clusters" / file);
}

/// The files hold what the fit finds, to the digits that they give.
TEST(Fitted, AFitFindsTheValuesOfTheFile) {
  const clusters::Cluster cluster = a100();
  const Fitted file = values_of(cluster), found = fit(cluster);
  fmt::print(
      "share {:.4f} depth {:.1f} bandwidth {:.4f} launch {:.3g} overlap {:.4f} 2021 {:.4f}\n",
      found.share, found.depth, found.bandwidth_share, found.launch_seconds, found.backward_overlap,
      found.of_2021);
  const auto near = [](double a, double b) { EXPECT_NEAR(a / b, 1, 0.02) << a << " " << b; };
  near(file.share, found.share);
  near(file.depth, found.depth);
  near(file.bandwidth_share, found.bandwidth_share);
  near(file.launch_seconds, found.launch_seconds);
  near(file.backward_overlap, found.backward_overlap);
  near(file.of_2021, found.of_2021);
}

/// From elsewhere too: the minimum is not where the search began.
TEST(Fitted, AFitFromElsewhereIsAsGood) {
  const clusters::Cluster cluster = a100();
  const auto error = [&](const Fitted& f) {
    double sum = 0;
    for (const double r : residuals(cluster, f)) sum += r * r;
    return sum;
  };
  const Fitted there = fit(with(cluster, {0.7, 100, 0.7, 5e-6, 0.4, 1}));
  EXPECT_LE(error(there), 1.05 * error(values_of(cluster)));
}

TEST(Fitted, EveryFigureWithinFourPercent) {
  const clusters::Cluster cluster = a100();
  for (const double r : residuals(cluster, values_of(cluster))) EXPECT_LE(std::abs(r), 0.04);
}

/// The chip is the same.
TEST(Fitted, TheSmallerCardHasTheSameShares) {
  const Fitted large = values_of(a100()), small = values_of(a100("a100_40gb.yaml"));
  EXPECT_EQ(large.share, small.share);
  EXPECT_EQ(large.depth, small.depth);
  EXPECT_EQ(large.bandwidth_share, small.bandwidth_share);
}

TEST(PatternSearch, FindsTheMinimumOfAValley) {
  const auto value = [](const std::vector<double>& x) {
    const double a = std::log(x[0] / 3), b = std::log(x[1] / 5);
    return (a + b) * (a + b) * 100 + (a - b) * (a - b);
  };
  const auto x = least_by_pattern({1, 1}, value, 1e-6);
  EXPECT_NEAR(x[0], 3, 0.01);
  EXPECT_NEAR(x[1], 5, 0.01);
}

}  // namespace
}  // namespace megalith::costs
