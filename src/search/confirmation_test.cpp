// SPDX-License-Identifier: Apache-2.0
#include "search/confirmation.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "families/families.h"

namespace megalith::search {
namespace {

/// With links so slow that transfers matter.
clusters::Cluster selene() {
  clusters::Cluster cluster = clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) /
                                                     "recipes/clusters/a100_80gb.yaml");
  cluster.links.front().bandwidth /= 10;
  return cluster;
}

engine::Settings small() {
  engine::Settings s;
  s.model = models::gpt2({.layers = 8, .hidden = 1024, .heads = 8, .context = 512, .vocab = 8192});
  s.split = {8, 1};
  s.weights = s.activations = DType::bf16;
  s.batch.full = 32;
  return s;
}

double predicted(const LayoutPoint& point, const clusters::Cluster& cluster) {
  const engine::Settings s = settings_at(small(), point);
  return costs::StepTimes(s, cluster).simulated(s).seconds;
}

/// Layouts with little and with much on the wire.
std::vector<LayoutPoint> points() {
  return {{.tensor = 8, .micro_batch = 4},
          {.tensor = 1, .data = 8, .micro_batch = 4},
          {.tensor = 2, .pipeline = 4, .micro_batch = 1},
          {.tensor = 4, .data = 2, .micro_batch = 8}};
}

std::vector<Trial> trials_on(const clusters::Cluster& truth) {
  std::vector<Trial> trials;
  for (const LayoutPoint& point : points())
    trials.push_back({.point = point,
                      .predicted = predicted(point, selene()),
                      .seconds = predicted(point, truth)});
  return trials;
}

/// A machine whose kernels take twice and whose transfers take four times as long is found.
TEST(Confirmation, TheRefitFindsASlowerMachine) {
  const clusters::Cluster truth = refitted(selene(), {2, 4});
  const Refit refit = refit_to(trials_on(truth), small(), selene());
  EXPECT_NEAR(refit.compute, 2, 0.15);
  EXPECT_NEAR(refit.wire, 4, 0.6);
  const clusters::Cluster again = refitted(selene(), refit);
  const LayoutPoint other{.tensor = 2, .data = 4, .micro_batch = 2};
  EXPECT_NEAR(predicted(other, again) / predicted(other, truth), 1, 0.05);
}

TEST(Confirmation, AsPredictedMovesNothing) {
  const Refit refit = refit_to(trials_on(selene()), small(), selene());
  EXPECT_NEAR(refit.compute, 1, 1e-2);
  EXPECT_NEAR(refit.wire, 1, 1e-2);
  const Refit none = refit_to({}, small(), selene());
  EXPECT_EQ(none.compute, 1);
  EXPECT_EQ(none.wire, 1);
}

TEST(Confirmation, MeasuredTimesOrderAndFailuresAreOut) {
  std::vector<Candidate> best;
  std::vector<Trial> trials;
  double seconds = 1;
  for (const LayoutPoint& point : points()) {
    best.emplace_back().point = point;
    best.back().time.seconds = seconds++;
  }
  trials.push_back({.point = points()[0], .predicted = 1, .seconds = 2.5});
  trials.push_back({.point = points()[1], .predicted = 2, .failure = "out of memory"});
  rank_by_trials(best, trials);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].point, points()[0]);  // 2.5 measured before 3 and 4 predicted
  EXPECT_EQ(best[1].point, points()[2]);
  EXPECT_EQ(best[2].point, points()[3]);
  EXPECT_EQ(best[0].expected_seconds(), 2.5);
  EXPECT_EQ(best[1].expected_seconds(), 3);
  trials[0].seconds = 3.5;
  rank_by_trials(best, trials);
  EXPECT_EQ(best[0].point, points()[2]);
  EXPECT_EQ(best[1].point, points()[0]);
}

}  // namespace
}  // namespace megalith::search
