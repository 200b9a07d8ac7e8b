// SPDX-License-Identifier: Apache-2.0
#include "parallel/tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <string>

namespace megalith::parallel {
namespace {

/// The tree as an expression: every order of additions has another one.
std::string tree(int lo, int hi, int first = 0) {
  if (hi - lo == 1) return std::to_string(first + lo);
  const int mid = lo + (hi - lo + 1) / 2;
  return "(" + tree(lo, mid, first) + "+" + tree(mid, hi, first) + ")";
}

TEST(TreeAccumulator, AddsInTheOrderOfTheTree) {
  for (int shards = 1; shards <= 65; ++shards) {
    const TreeAccumulator accumulator(shards);
    std::vector<std::string> buffers(static_cast<size_t>(accumulator.num_buffers()));
    for (int shard = 0; shard < shards; ++shard) {
      auto& own = buffers[static_cast<size_t>(accumulator.buffer_of(shard))];
      ASSERT_EQ(own, "") << "buffer of shard " << shard << " of " << shards << " is in use";
      own = std::to_string(shard);
      for (const auto [into, from] : accumulator.additions_after(shard)) {
        auto& sum = buffers[static_cast<size_t>(into)];
        auto& added = buffers[static_cast<size_t>(from)];
        sum = "(" + sum + "+" + added + ")";
        added = "";
      }
    }
    EXPECT_EQ(buffers[0], tree(0, shards));
  }
}

TEST(TreeAccumulator, NeedsAsManyBuffersAsABinaryCounterHasDigits) {
  for (int digits = 0; digits <= 10; ++digits) {
    EXPECT_EQ(TreeAccumulator(1 << digits).num_buffers(), digits + 1);
  }
  for (unsigned shards = 1; shards <= 1000; ++shards) {
    EXPECT_LE(TreeAccumulator(static_cast<int>(shards)).num_buffers(),
              std::bit_width(shards - 1) + 1);
  }
}

// ranks_fit says yes exactly when the tree over the ranks' blocks is the tree over the shards.
TEST(RanksFit, MeansThatBlocksAreSubtrees) {
  for (int shards = 1; shards <= 48; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      if (shards % ranks != 0) {
        EXPECT_FALSE(ranks_fit(shards, ranks));
        continue;
      }
      const int each = shards / ranks;
      // Replace rank r in the tree over ranks by the tree over its shards.
      const std::string over_ranks = tree(0, ranks);
      std::string nested;
      for (size_t i = 0; i < over_ranks.size();) {
        size_t digits = i;
        while (digits < over_ranks.size() && std::isdigit(over_ranks[digits])) ++digits;
        if (digits == i) {
          nested += over_ranks[i++];
        } else {
          nested += tree(0, each, std::stoi(over_ranks.substr(i, digits - i)) * each);
          i = digits;
        }
      }
      EXPECT_EQ(ranks_fit(shards, ranks), nested == tree(0, shards)) << shards << " " << ranks;
    }
  }
}

}  // namespace
}  // namespace megalith::parallel
