// SPDX-License-Identifier: Apache-2.0
// Every family of models has the same bits under every layout, like the toys of
// engine_layout_test.cpp: losses, gradient norms and the whole state after twenty steps.
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::run_toy;
using megalith::testing::SerialRun;
using megalith::testing::ToyRun;

class FamilyLayout : public ::testing::TestWithParam<const models::Family*> {
 protected:
  static constexpr int kSteps = 20;

  static Settings settings() {
    Settings settings = megalith::testing::toy_family_settings(*GetParam());
    settings.ragged = true;
    return settings;
  }
};

TEST_P(FamilyLayout, EveryLayout) {
  using layers::Recompute;
  struct Case {
    parallel::Layout layout;
    int zero = 0;
    int64_t micro_batch = 2;
    Recompute recompute = Recompute::none;
  };
  const std::vector<Case> cases = {
      {{}, 0, 1, Recompute::full},
      {{.tensor = 2}},
      {{.tensor = 4}, 0, 4},
      {{.tensor = 4, .sequence = true}, 0, 2, Recompute::selective},
      {{.pipeline = 2}, 0, 4},
      {{.pipeline = 3}, 0, 2, Recompute::selective},
      {{.data = 2}, 0, 1},
      {{.data = 2}, 1, 2, Recompute::full},
      {{.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}, 1},
  };
  const SerialRun serial(settings(), kSteps);
  for (const Case& each : cases) {
    const parallel::Layout& layout = each.layout;
    SCOPED_TRACE(fmt::format("tensor {}{}, pipeline {}, data {}, zero {}, micro-batches of {}",
                             layout.tensor, layout.sequence ? " and sequence" : "", layout.pipeline,
                             layout.data, each.zero, each.micro_batch));
    Settings other = settings();
    other.layout = layout;
    other.zero = each.zero;
    other.micro_batch = each.micro_batch;
    other.recompute.mode = each.recompute;
    EXPECT_EQ(serial.difference(other), "");
  }
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
