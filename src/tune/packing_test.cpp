// SPDX-License-Identifier: Apache-2.0
#include "tune/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "math/random.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;

TEST(Packing, TheLongestComeFirstAndGoWhereLeastRoomIsLeft) {
  const std::vector<int64_t> lengths = {3, 10, 4, 6, 5, 2};
  // 10 alone; 6, then 4 beside it; 5, 3 and 2.
  EXPECT_THAT(packed_samples(lengths, 10),
              ElementsAre(ElementsAre(1), ElementsAre(2, 3), ElementsAre(0, 4, 5)));
  EXPECT_TRUE(packed_samples({}, 10).empty());
}

TEST(Packing, OfTwoSidesBothHaveToFit) {
  // The encoder is full with the first and the last; the second has room for the third on one side.
  const std::vector<SideLengths> lengths = {{2, 9}, {8, 2}, {4, 8}, {3, 1}};
  EXPECT_THAT(packed_samples(lengths, {10, 10}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2)));
  // One token of each is left for what fills a sample.
  EXPECT_EQ(packed_samples(std::vector<SideLengths>(4, {1, 1}), {4, 10}).size(), 2u);
}

TEST(Packing, OfTwoSidesLosesNothing) {
  for (uint64_t round = 1; round < 50; ++round) {
    const auto longest = static_cast<int64_t>(round);
    const SideLengths length{2 + longest, 2 + longest / 3};
    std::vector<SideLengths> lengths;
    const auto draw = [&](uint64_t key, int64_t most) {
      return 1 + static_cast<int64_t>(random_key(round, key) % static_cast<uint64_t>(most));
    };
    for (uint64_t i = 0; i < 20 * round; ++i)
      lengths.push_back({draw(2 * i, length.decoder), draw(2 * i + 1, length.encoder)});
    std::vector<int> seen(lengths.size());
    const auto samples = packed_samples(lengths, length);
    for (const auto& sample : samples) {
      SideLengths all;
      for (const int64_t example : sample) {
        const SideLengths& one = lengths[static_cast<size_t>(example)];
        all = {all.decoder + one.decoder, all.encoder + one.encoder};
        ++seen[static_cast<size_t>(example)];
      }
      EXPECT_FALSE(sample.empty());
      EXPECT_TRUE(std::ranges::is_sorted(sample));
      EXPECT_LE(all.decoder, length.decoder);
      EXPECT_LE(all.encoder, length.encoder);
      EXPECT_TRUE(std::ssize(sample) < length.decoder);
    }
    EXPECT_EQ(seen, std::vector<int>(lengths.size(), 1));
    EXPECT_LT(samples.size(), lengths.size());
  }
}

/// Each example is in one sample, none is too full, and the samples are few.
TEST(Packing, LosesNothing) {
  for (uint64_t round = 0; round < 50; ++round) {
    std::vector<int64_t> lengths;
    for (uint64_t i = 0; i < 1 + round * 20; ++i)
      lengths.push_back(1 + static_cast<int64_t>(random_key(round, i) % (1 + round)));
    const int64_t length = 1 + static_cast<int64_t>(round);
    std::vector<int> seen(lengths.size());
    const auto samples = packed_samples(lengths, length);
    for (const auto& sample : samples) {
      EXPECT_FALSE(sample.empty());
      EXPECT_TRUE(std::ranges::is_sorted(sample));
      int64_t tokens = 0;
      for (const int64_t example : sample) {
        tokens += lengths[static_cast<size_t>(example)];
        ++seen[static_cast<size_t>(example)];
      }
      EXPECT_LE(tokens, length);
    }
    EXPECT_EQ(seen, std::vector<int>(lengths.size(), 1));
    const int64_t all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    EXPECT_LE(9 * std::ssize(samples), 11 * ((all + length - 1) / length) + 9 * 6);
  }
}

}  // namespace
}  // namespace megalith::tune
