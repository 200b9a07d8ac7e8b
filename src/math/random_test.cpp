// SPDX-License-Identifier: Apache-2.0
#include "math/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"

namespace megalith {
namespace {

TEST(Random, PhiloxGivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0'a4093822, 0x85a308d3'243f6a88, 0x03707344'13198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, KeysOfDifferentMeaningsDiffer) {
  std::set<uint64_t> keys;
  for (uint64_t seed : {0, 1, 1234})
    for (const char* name : {"", "a", "b", "layers.0.weight", "layers.1.weight"})
      keys.insert(random_key(seed, name));
  EXPECT_EQ(keys.size(), 15u);
  for (uint64_t key : {0, 1, 1234})
    for (uint64_t value : {0, 1, 2}) keys.insert(random_key(key, value));
  EXPECT_EQ(keys.size(), 24u);
  EXPECT_NE(random_key(random_key(1, uint64_t{2}), uint64_t{3}),
            random_key(random_key(1, uint64_t{3}), uint64_t{2}));
}

TEST(Random, UniformIsNeverZeroOrOne) {
  EXPECT_EQ(uniform_open(0), 0x1p-33);
  EXPECT_EQ(uniform_open(~0u), 1 - 0x1p-33);
}

TEST(Random, NormalHasItsMoments) {
  constexpr int kCount = 400000;
  double sum = 0, square = 0, cube = 0, fourth = 0;
  int beyond_two = 0;
  const uint64_t key = random_key(42, "normal");
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = normal(key, i);
    sum += x, square += x * x, cube += x * x * x, fourth += x * x * x * x;
    beyond_two += std::fabs(x) > 2;
  }
  // Five standard errors: variances of x, x^2, x^3, x^4 are 1, 2, 15, 96.
  const double error = 5 / std::sqrt(kCount);
  EXPECT_NEAR(sum / kCount, 0, error);
  EXPECT_NEAR(square / kCount, 1, error * std::sqrt(2));
  EXPECT_NEAR(cube / kCount, 0, error * std::sqrt(15));
  EXPECT_NEAR(fourth / kCount, 3, error * std::sqrt(96));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, std::erfc(std::sqrt(2)), error * 0.21);
}

TEST(Random, NormalInvertsTheDistribution) {
  // Phi(normal) must give back the uniform it came from: the sign bit and 52 bits of tail.
  for (uint64_t i = 0; i < 20000; ++i) {
    const PhiloxBlock block = philox(99, i, 0);
    for (uint64_t half : {0, 1}) {
      const uint64_t bits = block[2 * half] | uint64_t{block[2 * half + 1]} << 32;
      const long double tail = (static_cast<long double>((bits << 1) >> 12) + 0.5L) * 0x1p-53L;
      const double x = normal(99, 2 * i + half);
      EXPECT_EQ(std::signbit(x), (bits >> 63) != 0);
      // Relative error of the tail is |x| times the relative error of x times |x|: at most 40 eps.
      const long double back = 0.5L * erfcl(std::fabs(static_cast<long double>(x)) / sqrtl(2));
      EXPECT_NEAR(static_cast<double>(back / tail), 1.0, 64 * 0x1p-52) << x;
    }
  }
}

TEST(Random, NormalDrawsAreFrozen) {
  // Bits, not values: initial weights depend on them on every machine.
  const uint64_t key = random_key(1234, "embedding.tokens");
  uint64_t folded = 0;
  for (uint64_t i = 0; i < 4096; ++i)
    folded = folded * 0x9E3779B97F4A7C15ull + std::bit_cast<uint64_t>(normal(key, i));
  EXPECT_EQ(folded, 3830042484240439110u);
}

TEST(Random, PermuteIsABijectionForEverySmallSize) {
  for (uint64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4097}) {
    for (uint64_t key : {0, 1, 77}) {
      std::vector<bool> seen(n);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t to = permute(key, n, i);
        ASSERT_LT(to, n);
        ASSERT_FALSE(seen[to]) << "n " << n << " key " << key;
        seen[to] = true;
      }
    }
  }
}

TEST(Random, PermuteMixes) {
  constexpr uint64_t kSize = 10000;
  // A random permutation has one fixed point on average and neighbours far apart.
  int fixed = 0, adjacent = 0;
  for (uint64_t key = 0; key < 10; ++key)
    for (uint64_t i = 0; i + 1 < kSize; ++i) {
      const uint64_t a = permute(key, kSize, i), b = permute(key, kSize, i + 1);
      fixed += a == i;
      adjacent += a + 1 == b || b + 1 == a;
    }
  EXPECT_LT(fixed, 32);     // Poisson with mean 10: beyond 32 has probability 1e-8
  EXPECT_LT(adjacent, 50);  // mean 20
}

TEST(Random, PermuteTakesHugeSizesAndRefusesWrongOnes) {
  const uint64_t huge = (uint64_t{1} << 62) - 1;
  EXPECT_LT(permute(3, huge, huge - 1), huge);
  EXPECT_THROW(permute(3, 0, 0), InternalError);
  EXPECT_THROW(permute(3, 5, 5), InternalError);
  EXPECT_THROW(permute(3, uint64_t{1} << 62, 0), InternalError);
}

}  // namespace
}  // namespace megalith
