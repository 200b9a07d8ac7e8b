// SPDX-License-Identifier: Apache-2.0
#include "math/bf16_chain.h"

#include <gtest/gtest.h>

#include <limits>

namespace megalith {
namespace {

constexpr float kLeast = 0x1p-126f;

bool is_zero_of_sign(float x, bool negative) { return x == 0 && std::signbit(x) == negative; }

TEST(Bf16Chain, TheOddElementComesFirst) {
  EXPECT_EQ(bf16_chain_step(1, 1, -0x1p30f, 1, 0x1p30f), 1);  // 2^30 - 2^30 + 1
  EXPECT_EQ(bf16_chain_step(-0x1p30f, 1, 1, 1, 0x1p30f), 0);  // (2^30 + 1) - 2^30
}

TEST(Bf16Chain, ProductsAreNotRounded) {
  EXPECT_EQ(flushing_fma(1.0078125f, 1.0078125f, -1.015625f), 0x1p-14f);
}

TEST(Bf16Chain, DenormalsAreTakenAsZerosOfTheirSign) {
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(kLeast / 2, 0x1p100f, -0.0f), false));
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(-kLeast / 2, 0x1p100f, -0.0f), true));
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(0, 1, kLeast / 2), false));
  EXPECT_EQ(flushing_fma(kLeast, 1, kLeast / 2), kLeast);
}

TEST(Bf16Chain, TinyResultsAreFlushedToZerosOfTheirSign) {
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(0x1p-70f, 0x1p-70f, 0), false));
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(-0x1p-70f, 0x1p-70f, 0), true));
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(-0x1p-63f, 0x1p-63f, 0x1.8p-126f), false));
  EXPECT_EQ(flushing_fma(0x1p-63f, 0x1p-63f, 0), kLeast);
}

/// What rounds up to the least normal number is kept exactly if it would have with an exponent as
/// small as it takes: half a unit of 24 bits below it, 2^-151, is the tie.
TEST(Bf16Chain, TininessIsFoundAfterRounding) {
  EXPECT_EQ(flushing_fma(-0x1p-76f, 0x1p-76f, kLeast), kLeast);  // 2^-152 below
  EXPECT_EQ(flushing_fma(-0x1p-76f, 0x1p-75f, kLeast), kLeast);  // the tie goes to even
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(-0x1.02p-76f, 0x1p-75f, kLeast), false));
  EXPECT_TRUE(is_zero_of_sign(flushing_fma(0x1.02p-76f, 0x1p-75f, -kLeast), true));
}

TEST(Bf16Chain, InfinitiesAndNotANumberStay) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(flushing_fma(kInfinity, 1, 1), kInfinity);
  EXPECT_EQ(flushing_fma(0x1p100f, 0x1p100f, 1), kInfinity);
  EXPECT_TRUE(std::isnan(flushing_fma(kInfinity, 0, 1)));
  EXPECT_TRUE(std::isnan(flushing_fma(kInfinity, kLeast / 2, 1)));  // infinity x 0
  EXPECT_TRUE(std::isnan(flushing_fma(kInfinity, 1, -kInfinity)));
}

}  // namespace
}  // namespace megalith
