// SPDX-License-Identifier: Apache-2.0
#include "goodput/simulated_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "goodput/expected_run.h"

namespace megalith::goodput {
namespace {

const InterruptedRun kRuns[] = {
    // Seldom, often; saves that stall, saves in the background, both; restarts that fail again.
    {.work = 1e6, .mean_to_stop = 2e5, .save = 10, .restart = 300, .interval = 1000},
    {.work = 1e5, .mean_to_stop = 1000, .save = 10, .restart = 60, .interval = 140},
    {.work = 1e5, .mean_to_stop = 1000, .save = 0, .write = 100, .restart = 60, .interval = 100},
    {.work = 1e5, .mean_to_stop = 1000, .save = 10, .write = 100, .restart = 60, .interval = 140},
    {.work = 1e4, .mean_to_stop = 100, .save = 5, .write = 30, .restart = 120, .interval = 60},
    {.work = 100, .mean_to_stop = 100, .save = 10, .write = 20, .restart = 20, .interval = 100},
};

/// Four standard errors: of thirty such means one in five hundred would lie outside by chance; the
/// seed is fixed.
TEST(SimulatedRun, TheMeanIsTheExpectation) {
  for (const InterruptedRun& run : kRuns) {
    const Simulation many = simulate_runs(run, 1, 4000);
    const ExpectedShares expected = expected_shares(run);
    const auto near = [&](const Mean& mean, double value, const char* what) {
      EXPECT_NEAR(mean.value, value, 4 * mean.standard_error + 1e-9 * value)
          << what << ", write " << run.write << ", interval " << run.interval;
      EXPECT_LE(mean.standard_error, 0.03 * value + 1e-12) << what;
    };
    near(many.total, expected.total, "total");
    near(many.restarts, expected.restarts, "restarts");
    near(many.lost, expected.lost, "lost");
    near(many.failures, expected.failures, "failures");
    EXPECT_NEAR(many.saves.value, expected.saves, 1e-6);
  }
}

TEST(SimulatedRun, EverySecondIsAccountedFor) {
  for (const InterruptedRun& run : kRuns) {
    for (uint64_t number = 0; number < 200; ++number) {
      const SimulatedRun one = simulate(run, 3, number);
      EXPECT_NEAR(run.work + one.saves + one.restarts + one.lost, one.total, 1e-6 * one.total);
      EXPECT_GE(one.lost, 0);
    }
  }
}

TEST(SimulatedRun, WithoutFailuresNothingIsLost) {
  InterruptedRun run = kRuns[3];
  run.mean_to_stop = 1e12;
  const SimulatedRun one = simulate(run, 1, 0);
  EXPECT_EQ(one.failures, 0);
  EXPECT_NEAR(one.total, 1e5 + static_cast<double>(run.saves()) * 10 + 100, 1e-6);
}

TEST(SimulatedRun, IsAFunctionOfSeedAndNumber) {
  const InterruptedRun& run = kRuns[1];
  const Simulation few = simulate_runs(run, 5, 3), again = simulate_runs(run, 5, 3);
  EXPECT_EQ(few.totals, again.totals);
  EXPECT_NE(simulate(run, 5, 0).total, simulate(run, 6, 0).total);
  EXPECT_NE(simulate(run, 5, 0).total, simulate(run, 5, 1).total);
  EXPECT_EQ(few.quantile(0), few.totals.front());
  EXPECT_EQ(few.quantile(0.5), few.totals[1]);
  EXPECT_EQ(few.quantile(1), few.totals.back());
}

/// Three months of 3,072 GPUs that fail once in 50,000 hours each: a thousand times in seconds.
TEST(SimulatedRun, MonthsOfThousandsOfGpusInSeconds) {
  InterruptedRun run{.work = 90 * 86400.0,
                     .mean_to_stop = 50000 * 3600.0 / 3072,
                     .save = 10,
                     .write = 60,
                     .restart = 600};
  run.interval = best_interval(run);
  const auto begin = std::chrono::steady_clock::now();
  const Simulation many = simulate_runs(run, 1, 1000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_GT(many.failures.value, 100);
  EXPECT_NEAR(many.total.value, expected_seconds(run), 4 * many.total.standard_error);
}

}  // namespace
}  // namespace megalith::goodput
