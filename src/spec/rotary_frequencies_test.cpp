// SPDX-License-Identifier: Apache-2.0
// The angles of every scaling: their formulas and laws. Against transformers: tests/oracle.
#include "spec/rotary_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megalith::layers {
namespace {

float inverse(const RopeSpec& rope, int64_t pair, int64_t context = 64, int64_t length = 64) {
  return rotary_frequencies(rope, context, length).inverse[static_cast<size_t>(pair)];
}

TEST(Rotary, PlainAnglesArePowersOfTheBase) {
  const RopeSpec rope{.dim = 8, .base = 10000};
  EXPECT_EQ(rotary_frequencies(rope, 64, 64).pairs, 4);
  EXPECT_EQ(rotary_frequencies(rope, 64, 64).scale, 1);
  for (const auto& [pair, expected] : {std::pair{0, 1.0F}, {1, 0.1F}, {2, 0.01F}, {3, 0.001F}})
    EXPECT_FLOAT_EQ(inverse(rope, pair), expected);
}

TEST(Rotary, LinearDividesAll) {
  const RopeSpec rope{.dim = 8, .scaling = RopeScaling::linear, .factor = 4};
  for (int64_t pair = 0; pair < 4; ++pair)
    EXPECT_EQ(inverse(rope, pair), inverse(RopeSpec{.dim = 8}, pair) / 4);
}

TEST(Rotary, DynamicStaysUpToItsLengthAndSlowsBeyond) {
  const RopeSpec rope{.dim = 8, .scaling = RopeScaling::dynamic, .factor = 2};
  for (int64_t pair = 0; pair < 4; ++pair) {
    EXPECT_EQ(inverse(rope, pair, 64, 64), inverse(RopeSpec{.dim = 8}, pair));
    EXPECT_EQ(inverse(rope, pair, 64, 5), inverse(rope, pair, 64, 64));
  }
  // base' = 10000 (2 * 128 / 64 - 1)^(8 / 6)
  EXPECT_FLOAT_EQ(inverse(rope, 3, 64, 128),
                  static_cast<float>(std::pow(10000 * std::pow(3.0, 8.0 / 6), -0.75)));
}

TEST(Rotary, Llama3KeepsFastAndDividesSlowPairs) {
  const RopeSpec rope{.dim = 128,
                      .base = 500000,
                      .scaling = RopeScaling::llama3,
                      .factor = 8,
                      .original_context = 8192};
  const RopeSpec plain{.dim = 128, .base = 500000};
  EXPECT_EQ(inverse(rope, 0, 131072), 1);
  EXPECT_EQ(inverse(rope, 10, 131072), inverse(plain, 10));
  EXPECT_EQ(inverse(rope, 63, 131072), inverse(plain, 63) / 8);
  const float middle = inverse(rope, 32, 131072);
  EXPECT_LT(middle, inverse(plain, 32));
  EXPECT_GT(middle, inverse(plain, 32) / 8);
}

TEST(Rotary, Llama3RoundsAsTransformersDoes) {
  const RopeSpec rope{
      .dim = 128, .scaling = RopeScaling::llama3, .factor = 8, .original_context = 8192};
  EXPECT_EQ(inverse(rope, 44, 8192), 0x1.db15c4p-11F);
  EXPECT_EQ(inverse(rope, 46, 8192), 0x1.dc0860p-12F);
}

TEST(Rotary, YarnMixesAndScalesCosines) {
  const RopeSpec rope{
      .dim = 64, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 2048};
  EXPECT_EQ(inverse(rope, 0), 1);
  EXPECT_FLOAT_EQ(inverse(rope, 31), inverse(RopeSpec{.dim = 64}, 31) / 4);
  EXPECT_FLOAT_EQ(rotary_frequencies(rope, 8192, 8).scale,
                  static_cast<float>(0.1 * std::log(4.0) + 1));
}

TEST(Rotary, LongropeTakesItsFactorsByLength) {
  RopeSpec rope{.dim = 4, .scaling = RopeScaling::longrope, .factor = 4, .original_context = 16};
  rope.short_factors = {1, 2};
  rope.long_factors = {4, 8};
  EXPECT_EQ(inverse(rope, 1, 64, 16), 1 / (2 * 100.0F));
  EXPECT_EQ(inverse(rope, 1, 64, 17), 1 / (8 * 100.0F));
  EXPECT_FLOAT_EQ(rotary_frequencies(rope, 64, 16).scale,
                  static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(16.0))));
}

}  // namespace
}  // namespace megalith::layers
