// SPDX-License-Identifier: Apache-2.0
#include "costs/step_time.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "costs/published_run.h"

namespace megalith::costs {
namespace {

using layers::Recompute;

clusters::Cluster selene() {
  return clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) /
                                "recipes/clusters/a100_80gb.yaml");
}

PublishedRun gpt3(int tensor, int pipeline, int chunks, int64_t devices) {
  return {.name = "175B",
          .heads = 96,
          .hidden = 12288,
          .layers = 96,
          .tensor = tensor,
          .pipeline = pipeline,
          .chunks = chunks,
          .devices = devices,
          .global_batch = 1536,
          .micro_batch = 1,
          .recompute = Recompute::selective,
          .sequence = true};
}

TEST(StepTime, PartsSumToTheWhole) {
  const clusters::Cluster cluster = selene();
  for (const int chunks : {1, 3}) {
    const engine::Settings s = settings_of(gpt3(8, 8, chunks, 1024));
    StepTimes times(s, cluster);
    for (const StepTime& step : {times.least(s), times.simulated(s)}) {
      EXPECT_DOUBLE_EQ(step.parts.total(), step.seconds);
      for (const double part : {step.parts.compute, step.parts.recompute, step.parts.wire,
                                step.parts.bubble, step.parts.gradients, step.parts.optimizer})
        EXPECT_GT(part, 0);
    }
  }
}

/// The closed form bounds the schedule from below, and nearly is it where stages are alike.
TEST(StepTime, LeastIsABound) {
  const clusters::Cluster cluster = selene();
  for (const int pipeline : {1, 2, 8, 16}) {
    for (const int chunks : {1, 2, 3}) {
      if (pipeline == 1 && chunks > 1) continue;
      const engine::Settings s = settings_of(gpt3(8, pipeline, chunks, 1024));
      StepTimes times(s, cluster);
      const double least = times.least(s).seconds, simulated = times.simulated(s).seconds;
      EXPECT_LE(least, simulated * (1 + 1e-12)) << pipeline << " " << chunks;
      EXPECT_GE(least, simulated * 0.97) << pipeline << " " << chunks;
    }
  }
}

TEST(StepTime, WhatShouldCostCosts) {
  const clusters::Cluster cluster = selene();
  const auto seconds = [&](const PublishedRun& run) {
    const engine::Settings s = settings_of(run);
    return StepTimes(s, cluster).simulated(s).seconds;
  };
  const PublishedRun run = gpt3(8, 8, 3, 1024);
  PublishedRun changed = run;
  changed.recompute = Recompute::full;
  EXPECT_GT(seconds(changed), 1.1 * seconds(run));
  changed = run;
  changed.chunks = 1;
  EXPECT_GT(seconds(changed), seconds(run));
  // Tensor ranks over two nodes, with the adapters of four devices each.
  changed = run;
  clusters::Cluster slow = cluster;
  slow.node.devices = 4;
  slow.node.count *= 2;
  slow.links[0].devices = 4;
  const engine::Settings s = settings_of(run);
  EXPECT_GT(StepTimes(s, slow).simulated(s).seconds, 1.1 * seconds(run));
}

TEST(StepTime, TheTimelineIsTheStepsOwn) {
  const clusters::Cluster cluster = selene();
  const engine::Settings s = settings_of(gpt3(8, 8, 3, 1024));
  parallel::Timeline timeline;
  const StepTime step = StepTimes(s, cluster).simulated(s, &timeline);
  EXPECT_EQ(timeline.busy.size(), 8u);
  EXPECT_NEAR(timeline.end + step.parts.gradients + step.parts.optimizer, step.seconds,
              1e-9 * step.seconds);
  EXPECT_EQ(timeline.spans.size(), 8u * 3 * 2 * 96);
}

/// The share of a step that a device without published rates would need is not made up.
TEST(StepTime, AnUnknownRateIsRefused) {
  const clusters::Cluster b200 =
      clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) / "recipes/clusters/b200.yaml");
  const engine::Settings s = settings_of(gpt3(8, 8, 3, 1024));
  EXPECT_THROW(StepTimes(s, b200).least(s), UserError);
}

TEST(StepTime, EveryAssumptionIsALine) {
  const engine::Settings s = settings_of(gpt3(8, 8, 3, 1024));
  const auto lines = assumptions(selene(), s);
  EXPECT_GE(lines.size(), 7u);
}

}  // namespace
}  // namespace megalith::costs
