// SPDX-License-Identifier: Apache-2.0
// What the probes of a card showed, one property each; tests/golden/tensor_core_test.cpp has its
// sums.
#include "math/tensor_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace megalith {
namespace {

/// One instruction over terms x 1.
float sum_of(const std::vector<float>& terms, float start, CoreOperand type = kCoreE5m2,
             CoreSum how = kHopper8) {
  const std::vector<float> ones(terms.size(), 1.0f);
  return core_sum(terms, type, ones, type, start, how);
}

TEST(TensorCore, KeepsThirteenBitsBelowTheLargestTermOf8BitOperands) {
  for (int j = 0; j < 24; ++j) {
    const float small = std::ldexp(1.0f, 8 - j);
    // The large terms cancel; what is left is the small one, if it was kept.
    EXPECT_EQ(sum_of({256, -256, small}, 0), j <= 13 ? small : 0) << j;
    EXPECT_EQ(sum_of({small, -256}, 256), j <= 13 ? small : 0) << j;
    EXPECT_EQ(sum_of({256, -256}, small), j <= 13 ? small : 0) << j;
  }
}

TEST(TensorCore, KeepsTwentyFiveBitsOf16BitOperands) {
  for (int j = 0; j < 32; ++j) {
    const float small = std::ldexp(1.0f, 8 - j);
    const float kept = sum_of({256, -256, small}, 0, kCoreBf16, kHopper16);
    EXPECT_EQ(kept, j <= 25 ? small : 0) << j;
  }
}

TEST(TensorCore, CutsOffTowardsZeroAndNeverRounds) {
  const float unit = 0x1p-13f;
  EXPECT_EQ(sum_of({1, 1.75f * unit}, 0), 1 + unit);
  EXPECT_EQ(sum_of({-1, -1.75f * unit}, 0), -1 - unit);
  EXPECT_EQ(sum_of({1, -0.5f * unit}, 0), 1);  // each term by itself: what is below a unit is gone
  EXPECT_EQ(sum_of({1}, 1.999999f * unit), 1 + unit);
  // Two halves of a unit are both cut off before they could add up to one.
  EXPECT_EQ(sum_of({1, 0.5f * unit, 0.5f * unit}, 0), 1);
  // The sum is in the next binade, where the last place is two units.
  EXPECT_EQ(sum_of({1, 1, unit}, 0), 2);
  EXPECT_EQ(sum_of({1, 1, unit, unit}, 0), 2 + 2 * unit);
}

TEST(TensorCore, TheOrderWithinAGroupIsNoMatter) {
  std::vector<float> terms = {256, -0.75f, 0x1p-5f, 48, -256, 7, 0x1.4p-6f, -3};
  const float first = sum_of(terms, 0.4375f);
  std::ranges::sort(terms);
  do {
    ASSERT_EQ(sum_of(terms, 0.4375f), first);
  } while (std::ranges::next_permutation(terms).found);
}

TEST(TensorCore, GroupsFollowOneAnother) {
  // 40 ones beside 2^13 in the first group vanish if their unit is gone when their turn comes.
  std::vector<float> a(64, 1.0f), b(64, 1.0f);
  a[0] = b[0] = 128;  // 2^14: its last place is 2
  EXPECT_EQ(core_dot(a, kCoreE4m3, b, kCoreE4m3, kHopper8), 16384);
  std::ranges::reverse(a);
  std::ranges::reverse(b);
  // The first 32 add up to 32 before the large one comes; the 31 beside it are cut off one by one.
  EXPECT_EQ(core_dot(a, kCoreE4m3, b, kCoreE4m3, kHopper8), 16384 + 32);
}

TEST(TensorCore, PromotionBeginsAgainEvery128) {
  std::vector<float> a(192, 1.0f), b(192, 1.0f);
  a[0] = b[0] = 128;
  EXPECT_EQ(core_dot(a, kCoreE4m3, b, kCoreE4m3, kHopper8), 16384);
  EXPECT_EQ(core_dot(a, kCoreE4m3, b, kCoreE4m3, kHopper8, kHopperPromote), 16384 + 64);
}

TEST(TensorCore, ADenormalOperandHasTheLeastExponent) {
  // 2^-15 2^-2 of e5m2 is 2^-17, but aligned as a product of exponent -14 - 2: a unit is 2^-29, and
  // 2^-30, which is 13 below 2^-17, is gone.
  const std::vector<float> a = {0x1p-15f, 0x1p-15f}, b = {0.25f, 0x1p-15f};
  EXPECT_EQ(core_sum(a, kCoreE5m2, b, kCoreE5m2, 0, kHopper8), 0x1p-17f);
  const std::vector<float> c = {0x1p-14f, 0x1p-15f}, d = {0.125f, 0x1p-15f};
  EXPECT_EQ(core_sum(c, kCoreE5m2, d, kCoreE5m2, 0, kHopper8), 0x1p-17f + 0x1p-30f);
}

TEST(TensorCore, ZerosAndWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  EXPECT_EQ(bits(sum_of({-0.0f, -0.0f}, -0.0f)), 0u);
  EXPECT_EQ(bits(sum_of({1, -1}, -0.0f)), 0u);
  EXPECT_EQ(sum_of({kInfinity, -5}, 1), kInfinity);
  EXPECT_EQ(sum_of({-5}, -kInfinity), -kInfinity);
  EXPECT_EQ(bits(sum_of({kInfinity, -kInfinity}, 0)), 0x7fffffffu);
  EXPECT_EQ(bits(sum_of({-kInfinity}, kInfinity)), 0x7fffffffu);
  EXPECT_EQ(bits(sum_of({std::nanf("")}, 0)), 0x7fffffffu);
  const std::vector<float> infinite = {kInfinity}, zero = {0};
  EXPECT_EQ(bits(core_sum(infinite, kCoreE5m2, zero, kCoreE5m2, 0, kHopper8)), 0x7fffffffu);
  const std::vector<float> huge = {0x1p64f}, twice = {0x1p64f};
  EXPECT_EQ(core_sum(huge, kCoreBf16, twice, kCoreBf16, 0, kHopper16), kInfinity);
}

}  // namespace
}  // namespace megalith
