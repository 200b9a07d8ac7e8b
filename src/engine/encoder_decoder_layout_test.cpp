// SPDX-License-Identifier: Apache-2.0
// An encoder-decoder has the same bits under every layout: losses, gradient norms and the whole
// state after three steps, wherever the encoder ends among stages and chunks.
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::run_toy;
using megalith::testing::ToyRun;

class EncoderDecoderLayout : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int kSteps = 3;

  static Settings settings() {
    Settings settings = megalith::testing::toy_encoder_decoder_settings();
    settings.ragged = true;
    settings.weights = settings.activations = GetParam();
    return settings;
  }
  void SetUp() override { run_toy(settings(), kSteps, {}, serial_); }

  void expect_same(const Settings& other) const {
    ToyRun run;
    run_toy(other, kSteps, {}, run);
    ASSERT_TRUE(run.state.faults().empty()) << run.state.faults()[0];
    EXPECT_EQ(difference(serial_, run), "");
  }

  ToyRun serial_;
};

TEST_P(EncoderDecoderLayout, EveryLayout) {
  const std::vector<parallel::Layout> layouts = {
      {.tensor = 2},
      {.tensor = 4, .sequence = true},
      {.pipeline = 2},
      {.pipeline = 3},
      {.pipeline = 5},
      {.data = 2},
      {.tensor = 2, .pipeline = 2, .sequence = true},
      {.pipeline = 2, .data = 2},
      {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}};
  for (const parallel::Layout& layout : layouts) {
    SCOPED_TRACE(fmt::format("tensor {}, pipeline {}, data {}", layout.tensor, layout.pipeline,
                             layout.data));
    Settings other = settings();
    other.layout = layout;
    other.zero = layout.data > 1 ? 1 : 0;
    expect_same(other);
  }
}

TEST_P(EncoderDecoderLayout, InterleavedChunks) {
  Settings other = settings();
  other.layout = {.pipeline = 2, .chunks = 2};
  other.pipeline_schedule = parallel::ScheduleKind::interleaved;
  other.micro_batch = 1;
  expect_same(other);
}

TEST_P(EncoderDecoderLayout, MicroBatchesAndRecomputation) {
  for (const int64_t samples : {1, 4}) {
    Settings other = settings();
    other.micro_batch = samples;
    other.recompute.mode = samples == 1 ? layers::Recompute::selective : layers::Recompute::full;
    other.layout = {.pipeline = samples == 1 ? 1 : 2};
    expect_same(other);
  }
}

TEST_P(EncoderDecoderLayout, Untied) {
  Settings one = settings();
  one.model.head.tied = false;
  Settings other = one;
  other.layout = {.tensor = 2, .pipeline = 3};
  ToyRun a, b;
  run_toy(one, kSteps, {}, a);
  run_toy(other, kSteps, {}, b);
  EXPECT_EQ(difference(a, b), "");
}

TEST_P(EncoderDecoderLayout, ItLearns) {
  Settings settings = EncoderDecoderLayout::settings();
  settings.model.dropout = 0;
  ToyRun run;
  run_toy(settings, 90, {}, run);
  EXPECT_LT(run.loss.back(), run.loss.front() - 0.5);
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderDecoderLayout, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace megalith::engine
