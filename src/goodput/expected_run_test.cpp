// SPDX-License-Identifier: Apache-2.0
#include "goodput/expected_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace megalith::goodput {
namespace {

using ::testing::HasSubstr;

constexpr double kDay = 86400;

/// Llama 3 405B: 419 unexpected stops in 54 days of 16,384 GPUs (Dubey et al. 2024), with saves of
/// 10 s and restarts of 5 minutes.
InterruptedRun llama() {
  return {.work = 54 * kDay,
          .mean_to_stop = 54 * kDay / 419,
          .save = 10,
          .restart = 300,
          .interval = 600};
}

TEST(ExpectedRun, WithoutFailuresIsWorkAndSaves) {
  InterruptedRun run = llama();
  run.mean_to_stop = 1e12;
  run.write = 40;
  const ExpectedShares shares = expected_shares(run);
  EXPECT_EQ(run.saves(), 54 * 144);
  EXPECT_NEAR(shares.total, run.work + 54 * 144 * 10 + 40, 20);
  EXPECT_NEAR(shares.failures, 0, 1e-4);
}

/// First order: save / interval + interval / (2 M) + restart / M.
TEST(ExpectedRun, ComesNearTheFirstOrderFormula) {
  InterruptedRun run = llama();
  run.interval = young_interval(run);
  EXPECT_NEAR(run.interval / 60, 7.9, 0.1);
  const double loss = run.save / run.interval + run.interval / (2 * run.mean_to_stop) +
                      run.restart / run.mean_to_stop;
  EXPECT_NEAR(loss, 0.069, 0.001);
  EXPECT_NEAR(expected_shares(run).goodput(), 1 / (1 + loss), 0.003);
}

TEST(ExpectedRun, OneStretchByHand) {
  // e^(r R) (e^(r (w + s + b)) - 1) / r with r = 1/100: e^0.2 (e^1.3 - 1) 100.
  const InterruptedRun run{
      .work = 100, .mean_to_stop = 100, .save = 10, .write = 20, .restart = 20, .interval = 100};
  EXPECT_NEAR(expected_seconds(run), std::exp(0.2) * (std::exp(1.3) - 1) * 100, 1e-9);
  const ExpectedShares shares = expected_shares(run);
  EXPECT_NEAR(shares.work + shares.saves + shares.restarts + shares.lost, shares.total, 1e-9);
  EXPECT_NEAR(shares.restarts, shares.total / std::exp(0.2) * (std::exp(0.2) - 1), 1e-9);
}

TEST(ExpectedRun, TheBestIntervalIsAMinimum) {
  for (const double save : {0.5, 10.0, 300.0}) {
    for (const double write : {0.0, 60.0}) {
      InterruptedRun run = llama();
      run.save = save;
      run.write = write;
      const double best = best_interval(run);
      // Of the cost of a second's work, so that whole numbers of stretches play no part.
      const auto cost = [&](double w) { return std::expm1((w + run.save) / run.mean_to_stop) / w; };
      EXPECT_LE(cost(best), cost(best * 1.001)) << save;
      EXPECT_LE(cost(best), cost(best / 1.001)) << save;
      EXPECT_NEAR(best, daly_interval(run), 0.02 * best) << save;
      EXPECT_GT(young_interval(run), best) << save;
    }
  }
}

TEST(ExpectedRun, WhereSavesCostNothingTheyAreAsDenseAsTheyCanBe) {
  InterruptedRun run = llama();
  run.save = 0;
  EXPECT_LT(best_interval(run), 1);
  run.write = 30;
  EXPECT_EQ(best_interval(run), 30);
  run.work = 20;
  EXPECT_EQ(best_interval(run), 20);
}

TEST(ExpectedRun, DalyLeavesYoungWhereSavesAreLong) {
  InterruptedRun run = llama();
  run.save = 3 * run.mean_to_stop;
  EXPECT_EQ(daly_interval(run), run.mean_to_stop);
}

TEST(ExpectedRun, WhatCannotBeIsRefused) {
  const auto refusal = [](InterruptedRun run) -> std::string {
    try {
      check(run);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(llama()), "");
  InterruptedRun run = llama();
  run.mean_to_stop = 0;
  EXPECT_THAT(refusal(run), HasSubstr("mean time between failures is 0 seconds"));
  run = llama();
  run.save = -1;
  EXPECT_THAT(refusal(run), HasSubstr("a save is -1 seconds"));
  run = llama();
  run.write = 700;
  EXPECT_THAT(refusal(run), HasSubstr("set the interval to 700 seconds"));
  run = llama();
  run.mean_to_stop = 20;
  EXPECT_THAT(refusal(run), HasSubstr("such a run does not end"));
  run = llama();
  run.work = std::nan("");
  EXPECT_THAT(refusal(run), HasSubstr("the work is nan"));
}

}  // namespace
}  // namespace megalith::goodput
