// SPDX-License-Identifier: Apache-2.0
// Settings that no recipe's rules have seen are refused before anything computes with them.
#include "engine/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Settings, TokensAreSharedInWholeShards) {
  Settings s = megalith::testing::toy_settings();
  s.model.context = 18;
  s.layout = {.tensor = 2, .sequence = true};
  EXPECT_THAT(
      [&] { check(s, "toy"); },
      ThrowsMessage<UserError>(EndsWith("parallel.tensor_shards 4 to divide model.context 18")));
  s.layout.sequence = false;
  EXPECT_NO_THROW(check(s, "toy"));
}

TEST(Settings, SoAreThoseOfADecoder) {
  Settings s = megalith::testing::toy_encoder_decoder_settings();
  s.layout = {.tensor = 2, .sequence = true};
  EXPECT_NO_THROW(check(s, "toy"));
  s.decoder_length = 7;
  EXPECT_THAT([&] { check(s, "toy"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("to divide the decoder's 7 tokens"),
                                             HasSubstr("train.spans.mean_length"))));
}

TEST(Settings, BlocksOf32LieWithinShardsAndSamples) {
  Settings s = megalith::testing::toy_settings();
  s.fp8.emplace();
  s.fp8->options.scaling = precision::ScalingOptions::of(precision::ScalingPolicy::mx);
  const auto fault = [&](const char* what) {
    EXPECT_THAT([&] { check(s, "toy"); },
                ThrowsMessage<UserError>(
                    AllOf(HasSubstr("precision.fp8.recipe mx has blocks of 32"), HasSubstr(what))));
  };
  fault("the tokens of a sample, 16");
  s.model.context = 32;
  fault("the rows of layers.0.attention.qkv.weight in each of the parallel.tensor_shards, 24");
  s.fp8->options.scaling = precision::ScalingOptions::of(precision::ScalingPolicy::block);
  EXPECT_NO_THROW(check(s, "toy"));
}

TEST(Settings, CountsOfLayersAreOfThisModel) {
  Settings s = megalith::testing::toy_settings();  // of three layers
  s.fp8.emplace();
  s.fp8->first_wide = 2;
  s.recompute.full_layers = 3;
  EXPECT_NO_THROW(check(s, "toy"));
  s.fp8->last_wide = 1;
  s.recompute.full_layers = 4;
  EXPECT_THAT([&] { check(s, "toy"); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("memory.recompute_layers 4 is more than model.layers 3"),
                        HasSubstr("first_layers 2 and last_layers 1 leave none of 3 layers"))));
}

TEST(Settings, LayersThatShareWeightsAreAllIn8Bits) {
  Settings s = megalith::testing::toy_settings();
  s.model.layer_groups = 1;
  s.fp8.emplace();
  EXPECT_NO_THROW(check(s, "toy"));
  EXPECT_EQ(s.fp8_products().size(), 4u);
  s.fp8->last_wide = 1;
  EXPECT_THAT([&] { check(s, "toy"); },
              ThrowsMessage<UserError>(HasSubstr("layers share weights; set both to 0")));
}

}  // namespace
}  // namespace megalith::engine
