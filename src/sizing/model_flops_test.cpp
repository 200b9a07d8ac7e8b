// SPDX-License-Identifier: Apache-2.0
#include "sizing/model_flops.h"

#include <gtest/gtest.h>

#include "account/chunk_trace.h"
#include "engine/from_recipe.h"
#include "models/recipe_model.h"

namespace megalith::sizing {
namespace {

engine::Settings settings_of(const std::string& model, const std::string& objective) {
  const std::string text =
      "model: {" + model + "}\ntrain: {objective: " + objective + ", steps: 1, global_batch: 1}\n";
  return engine::settings_of(
      config::parse_recipe(text, "test", std::span<const std::string>(), models::complete), 0);
}

/// 72 B L s h^2 (1 + s/6h + v/12hL)
TEST(ModelFlops, AreEquation7) {
  const double l = 96, s = 2048, h = 12288, v = 51200;
  const ForwardFlops flops = forward_flops(settings_of(
      "family: gpt2, layers: 96, hidden: 12288, heads: 96, context: 2048, vocab: 51200", "causal"));
  const double paper = 72 * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  EXPECT_DOUBLE_EQ(training_flops(flops, layers::Recompute::none), paper);
  // A second forward of the layers: 96 B s L h^2 (1 + s/6h + v/16Lh).
  EXPECT_DOUBLE_EQ(training_flops(flops, layers::Recompute::full),
                   96 * l * s * h * h * (1 + s / (6 * h) + v / (16 * h * l)));
  // A second forward of the scores alone: 4 s^2 h a layer.
  EXPECT_DOUBLE_EQ(training_flops(flops, layers::Recompute::selective), paper + 4 * s * s * h * l);
}

/// What real layers record on shapes alone: products with weights and, where every pair is seen,
/// attention too.
TEST(ModelFlops, AreWhatLayersRecord) {
  const device::Target target{device::DeviceKind::cpu, device::Isa::avx2, 1};
  const std::pair<const char*, const char*> models[] = {
      {"family: gpt2, layers: 3, hidden: 64, heads: 4, context: 32, vocab: 512", "causal"},
      {"family: llama, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, context: 32, "
       "vocab: 512",
       "causal"},
      {"family: bert, layers: 3, hidden: 64, heads: 4, context: 32, vocab: 512", "masked"},
      {"family: gemma2, layers: 3, hidden: 64, heads: 4, kv_heads: 2, head_dim: 32, ffn: 96, "
       "context: 32, vocab: 512",
       "causal"}};
  for (const auto& [model, objective] : models) {
    engine::Settings s = settings_of(model, objective);
    const account::ChunkTrace trace =
        account::trace_chunk(s, target, {.begin = 0, .end = 3, .has_embedding = true});
    const ForwardFlops flops = forward_flops(s);
    double linear = 0, attention = 0;
    for (const device::Record& record : trace.forward_records) {
      if (record.name.starts_with("linear")) linear += record.work.flops;
      if (record.name.starts_with("attention")) attention += record.work.flops;
    }
    EXPECT_DOUBLE_EQ(linear, flops.layers) << model;
    if (s.model.layer(0).attention.causal) {
      EXPECT_LT(attention, flops.scores) << model;
      EXPECT_GT(attention, 0.45 * flops.scores) << model;
    } else {
      EXPECT_DOUBLE_EQ(attention, flops.scores) << model;
    }
    EXPECT_GT(flops.head, 0);
  }
}

TEST(ModelFlops, OfAnEncoderDecoderByTheLengthOfEachSide) {
  const engine::Settings s = settings_of(
      "family: t5, layers: 2, decoder_layers: 3, hidden: 64, heads: 4, ffn: 128, context: 64, "
      "vocab: 512",
      "spans");
  const double read = 64, written = static_cast<double>(s.decoder_length);
  ASSERT_GT(written, 0);
  ASSERT_LT(written, read);
  const ForwardFlops flops = forward_flops(s);
  const double self = 2 * 64 * 64 * 4 + 2 * 2 * 64 * 128;  // operations of a token
  EXPECT_DOUBLE_EQ(flops.layers, 2 * read * self + 3 * (written * (self + 2 * 2 * 64 * 64) +
                                                        read * 2 * 64 * 2 * 64));
  EXPECT_DOUBLE_EQ(flops.scores,
                   4 * 64 * (2 * read * read + 3 * (written * written + written * read)));
  EXPECT_DOUBLE_EQ(flops.head, written * 2 * 64 * 512);
}

}  // namespace
}  // namespace megalith::sizing
