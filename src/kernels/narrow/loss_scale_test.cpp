// SPDX-License-Identifier: Apache-2.0
// tests/golden/narrow_test.cpp compares 400 decisions with torch.amp.GradScaler's.
#include "kernels/narrow/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::TestTensor;

/// The scales after each step of `run`: + finite, - not. Chances are whole at the start.
std::vector<double> scales(std::string_view run, UpdateLossScale rules, double start = 1024) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor finite(DType::i32, Shape{1}), scale(DType::f32, Shape{1}), steps(DType::i32, Shape{2});
  scale.set(0, start);
  steps.set(0, 0);
  steps.set(1, rules.chances);
  rules.finite = finite, rules.scale = scale, rules.steps = steps;
  std::vector<double> after;
  for (const char step : run) {
    finite.set(0, step == '+' ? 1 : 0);
    update_loss_scale(exec, rules);
    after.push_back(scale.at(0));
  }
  return after;
}

UpdateLossScale rules(int32_t interval, int32_t chances = 1, float least = 0) {
  UpdateLossScale r = {};
  r.interval = interval, r.chances = chances, r.least = least;
  return r;
}

TEST(UpdateLossScale, GrowsAfterAnIntervalOfGoodStepsAndBacksOffAtOnce) {
  EXPECT_EQ(scales("++++-++-+++", rules(3)),
            (std::vector<double>{1024, 1024, 2048, 2048, 1024, 1024, 1024, 512, 512, 512, 1024}));
}

TEST(UpdateLossScale, HasChancesAndGetsThemBackWithGrowth) {
  EXPECT_EQ(scales("---+-+++-+-", rules(3, 3)),
            (std::vector<double>{1024, 1024, 512, 512, 256, 256, 256, 512, 512, 512, 512}));
}

TEST(UpdateLossScale, StaysFiniteAndAboveItsLeast) {
  EXPECT_EQ(scales("++", rules(1), 0x1p127), (std::vector<double>{0x1p127, 0x1p127}));
  EXPECT_EQ(scales("--", rules(1, 1, 1), 2), (std::vector<double>{1, 1}));
}

TEST(UpdateLossScale, RefusesRulesThatMakeNoSense) {
  EXPECT_THROW(scales("+", rules(0)), InternalError);
  EXPECT_THROW(scales("+", rules(1, 0)), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
