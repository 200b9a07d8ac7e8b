// SPDX-License-Identifier: Apache-2.0
#include "sizing/law_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "math/random.h"

namespace megalith::sizing {
namespace {

using ::testing::HasSubstr;

/// Small runs of a law, each off by `noise` of its loss at random.
std::vector<LossPoint> runs_of(const LossLaw& law, double noise, uint64_t key = 1) {
  std::vector<LossPoint> points;
  for (const double n : {1e6, 3e6, 1e7, 3e7, 1e8})
    for (const double d : {1e7, 1e8, 1e9, 1e10})
      points.push_back({n, d, law.loss(n, d) * (1 + noise * normal(key, points.size()))});
  return points;
}

TEST(LawFit, FindsTheLawOfExactPoints) {
  for (const LossLaw& law : loss_laws()) {
    const FittedLaw fitted = fit_law(runs_of(law, 0));
    EXPECT_NEAR(fitted.law.alpha, law.alpha, 1e-4);
    EXPECT_NEAR(fitted.law.beta, law.beta, 1e-4);
    EXPECT_NEAR(fitted.law.irreducible, law.irreducible, 1e-3);
    EXPECT_LT(fitted.residual, 1e-6);
    EXPECT_NEAR(fitted.law.loss(7e10, 1.4e12), law.loss(7e10, 1.4e12), 1e-3);
  }
}

/// Extrapolated a hundredfold in size: off by about what is said.
TEST(LawFit, SaysHowFarItMayBeOff) {
  const LossLaw& law = loss_laws()[0];
  int within = 0;
  constexpr int kTrials = 12;
  for (int trial = 0; trial < kTrials; ++trial) {
    const FittedLaw fitted = fit_law(runs_of(law, 0.003, static_cast<uint64_t>(trial + 1)));
    const double error = fitted.standard_error(1e10, 2e11);
    EXPECT_GT(error, 0);
    EXPECT_LT(error, 0.3);
    within += std::abs(fitted.law.loss(1e10, 2e11) - law.loss(1e10, 2e11)) < 2.5 * error;
  }
  EXPECT_GE(within, kTrials - 3);
}

TEST(LawFit, OneWildRunMovesItLittle) {
  const LossLaw& law = loss_laws()[0];
  std::vector<LossPoint> points = runs_of(law, 0);
  points[7].loss *= 1.5;
  const FittedLaw fitted = fit_law(points);
  EXPECT_NEAR(fitted.law.loss(1e9, 2e10), law.loss(1e9, 2e10), 0.02);
}

TEST(LawFit, WhatCannotTellIsRefused) {
  const auto refusal = [](std::vector<LossPoint> points) -> std::string {
    try {
      fit_law(points);
    } catch (const UserError& error) {
      return error.what();
    }
    return "taken";
  };
  std::vector<LossPoint> points = runs_of(loss_laws()[0], 0);
  EXPECT_THAT(refusal({points.begin(), points.begin() + 5}), HasSubstr("5 runs of 2 sizes"));
  EXPECT_THAT(refusal({points.begin(), points.begin() + 8}), HasSubstr("three sizes"));
  points[3].loss = std::nan("");
  EXPECT_THAT(refusal(points), HasSubstr("has the loss nan; leave it out"));
}

}  // namespace
}  // namespace megalith::sizing
