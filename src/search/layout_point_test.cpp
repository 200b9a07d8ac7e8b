// SPDX-License-Identifier: Apache-2.0
#include "search/layout_point.h"

#include <gtest/gtest.h>

#include <set>

#include "families/families.h"

namespace megalith::search {
namespace {

engine::Settings small() {
  engine::Settings s;
  s.model = models::gpt2({.layers = 8, .hidden = 64, .heads = 4, .context = 32, .vocab = 256});
  s.split = {4, 1};
  s.batch.full = 16;
  return s;
}

TEST(LayoutPoint, SettingsAndPointsAreOneAnother) {
  const engine::Settings base = small();
  for (const LayoutPoint& point : space_of(base, 8).points)
    EXPECT_EQ(point_of(settings_at(base, point)), point) << point.text();
}

/// Every point passes the engine's own check, and each is there once.
TEST(LayoutPoint, EveryPointIsAPossibleLayout) {
  const engine::Settings base = small();
  for (const int64_t devices : {1, 2, 8, 16, 64}) {
    const Space space = space_of(base, devices);
    std::set<std::string> texts;
    for (const LayoutPoint& point : space.points) {
      EXPECT_EQ(point.tensor * point.pipeline * point.data, devices);
      EXPECT_NO_THROW(engine::check(settings_at(base, point), "test")) << point.text();
      EXPECT_TRUE(
          texts.insert(point.text() + std::string(settings::name_of(point.schedule))).second)
          << point.text();
    }
    EXPECT_FALSE(space.points.empty());
  }
}

/// All of them: as many as counting by hand gives.
TEST(LayoutPoint, NoPointIsLeftOut) {
  const Space space = space_of(small(), 2);
  // tensor 2: micro-batches 1, 2, 4, 8, 16, with and without sequence: 10. data 2: micro-batches
  // 1, 2, 4, 8: 4. pipeline 2: 5 micro-batches of 1f1b, gpipe, interleaved in 2 and 4 chunks: 20.
  EXPECT_EQ(space.points.size(), 34u);
}

TEST(LayoutPoint, WhatIsExcludedHasItsReason) {
  engine::Settings base = small();
  base.batch.full = 6;
  const Space space = space_of(base, 64);
  bool batch = false, shards = false, layers = false;
  for (const auto& [reason, count] : space.refused) {
    EXPECT_GT(count, 0);
    batch = batch || reason.find("train.global_batch 6 is not a multiple") != std::string::npos;
    shards =
        shards || reason.find("parallel.tensor_shards 4 is not shared by 8") != std::string::npos;
    layers = layers || reason.find("need more than 8 layers") != std::string::npos;
  }
  EXPECT_TRUE(batch && shards && layers);
}

TEST(LayoutPoint, ChangesAreKeysToSet) {
  const LayoutPoint a{.tensor = 2};
  LayoutPoint b = a;
  EXPECT_EQ(distance(a, b), 0);
  b.micro_batch = 2;
  b.recompute.mode = layers::Recompute::full;
  EXPECT_EQ(distance(a, b), 2);
  EXPECT_EQ(changes_text(a, b), "train.micro_batch=2 memory.recompute=full");
}

}  // namespace
}  // namespace megalith::search
