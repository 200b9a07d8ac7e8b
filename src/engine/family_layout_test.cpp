// SPDX-License-Identifier: Apache-2.0
// Every family of models has the same bits under every layout, like the toys of
// engine_layout_test.cpp: losses, gradient norms and the whole state after three steps.
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::run_toy;
using megalith::testing::SerialRun;
using megalith::testing::ToyRun;

class FamilyLayout : public ::testing::TestWithParam<const models::Family*> {
 protected:
  static constexpr int kSteps = 3;

  static Settings settings() {
    Settings settings = megalith::testing::toy_family_settings(*GetParam());
    settings.ragged = true;
    return settings;
  }
};

TEST_P(FamilyLayout, TensorPipelineAndDataRanks) {
  Settings other = settings();
  other.layout = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  other.zero = 1;
  EXPECT_EQ(SerialRun(settings(), kSteps).difference(other), "");
}

TEST_P(FamilyLayout, OneTensorShardARank) {
  Settings other = settings();
  other.layout = {.tensor = 4};
  other.micro_batch = 4;
  EXPECT_EQ(SerialRun(settings(), kSteps).difference(other), "");
}

TEST_P(FamilyLayout, StagesThatComputeAgain) {
  Settings other = settings();
  other.layout = {.pipeline = 3};
  other.recompute.mode = layers::Recompute::selective;
  EXPECT_EQ(SerialRun(settings(), kSteps).difference(other), "");
}

TEST_P(FamilyLayout, ItLearns) {
  Settings settings = FamilyLayout::settings();
  settings.model.dropout = 0;
  ToyRun run;
  // A decoder has half as many tokens to learn from.
  run_toy(settings, settings.model.is_encoder_decoder() ? 150 : 30, {}, run);
  EXPECT_LT(run.loss.back(), run.loss.front() - 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyLayout,
                         ::testing::ValuesIn(models::families().begin(), models::families().end()),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace megalith::engine
