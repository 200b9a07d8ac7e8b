// SPDX-License-Identifier: Apache-2.0
// An encoder-decoder has the same bits under every layout: losses, gradient norms and the whole
// state after three steps, wherever the encoder ends among stages and chunks.
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::SerialRun;
using parallel::Layout;

constexpr int kSteps = 3;

class EncoderDecoderLayout : public ::testing::TestWithParam<DType> {
 protected:
  static Settings settings() {
    Settings settings = megalith::testing::toy_encoder_decoder_settings();
    settings.ragged = true;
    settings.weights = settings.activations = GetParam();
    return settings;
  }
  const SerialRun serial_{settings(), kSteps};
};

TEST_P(EncoderDecoderLayout, EveryLayout) {
  const std::vector<Layout> layouts = {{.tensor = 2},
                                       {.tensor = 4, .sequence = true},
                                       {.pipeline = 2},
                                       {.pipeline = 3},
                                       {.pipeline = 5},
                                       {.data = 2},
                                       {.tensor = 2, .pipeline = 2, .sequence = true},
                                       {.pipeline = 2, .data = 2},
                                       {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}};
  for (const Layout& layout : layouts) {
    Settings other = settings();
    other.layout = layout;
    other.zero = layout.data > 1 ? 1 : 0;
    EXPECT_EQ(serial_.difference(other), "") << fmt::format(
        "tensor {}, pipeline {}, data {}", layout.tensor, layout.pipeline, layout.data);
  }
}

TEST_P(EncoderDecoderLayout, InterleavedChunks) {
  Settings other = settings();
  other.layout = {.pipeline = 2, .chunks = 2};
  other.pipeline_schedule = parallel::ScheduleKind::interleaved;
  other.micro_batch = 1;
  EXPECT_EQ(serial_.difference(other), "");
}

TEST_P(EncoderDecoderLayout, MicroBatchesAndRecomputation) {
  for (const int64_t samples : {1, 4}) {
    Settings other = settings();
    other.micro_batch = samples;
    other.recompute.mode = samples == 1 ? layers::Recompute::selective : layers::Recompute::full;
    other.layout = {.pipeline = samples == 1 ? 1 : 2};
    EXPECT_EQ(serial_.difference(other), "") << samples;
  }
}

/// Behind an odd number of rows there is one more between stages (models/stream_rows.h).
TEST_P(EncoderDecoderLayout, AnOddNumberOfTokens) {
  Settings one = settings();
  one.decoder_length = 7;
  const SerialRun serial(one, kSteps);
  for (const Layout& layout : {Layout{.pipeline = 3}, Layout{.pipeline = 5},
                               Layout{.tensor = 2, .pipeline = 2, .data = 2}}) {
    Settings other = one;
    other.layout = layout;
    other.micro_batch = 1;
    EXPECT_EQ(serial.difference(other), "") << layout.pipeline;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderDecoderLayout, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

/// Then the table of distances of a stack is one layer's alone.
TEST(EncoderDecoder, StacksOfOneLayer) {
  Settings one = megalith::testing::toy_family_settings(models::kT5);
  std::vector<layers::LayerSpec>& stacks = one.model.layers;
  stacks = {stacks.front(), stacks.back()};
  one.model.encoder_layers = 1;
  const SerialRun serial(one, kSteps);
  for (const Layout& layout : {Layout{.pipeline = 2}, Layout{.tensor = 2, .data = 2}}) {
    Settings other = one;
    other.layout = layout;
    EXPECT_EQ(serial.difference(other), "") << layout.pipeline;
  }
}

}  // namespace
}  // namespace megalith::engine
