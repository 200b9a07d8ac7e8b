// SPDX-License-Identifier: Apache-2.0
#include "parameters/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/integer.h"
#include "kernels/reduction/norms.h"

namespace megalith::parameters {
namespace {

constexpr int64_t kBlock = kernels::kSquaresBlock;
/// A group for each parameter, a few, one.
constexpr int64_t kLeast[] = {64, 1 << 20, int64_t{1} << 40};

Parameter made(const char* name, const Shape& shape, int dim, int tensor_ranks) {
  const Shard shard = dim < 0 ? Shard::whole(shape) : Shard::part(shape, dim, 0, tensor_ranks);
  return Parameter({name, shape, shard, Init{}, dim < 0 ? 1 : 4});
}

/// A tied table, matrices cut along rows and along columns, a bias with partial rows.
std::deque<Parameter> stage(int tensor_ranks, int64_t hidden) {
  std::deque<Parameter> all;
  Declaration table = made("table", {512, hidden}, 0, tensor_ranks).declaration();
  table.num_gradients = 2;
  all.emplace_back(table);
  all.push_back(made("rows", {4 * hidden, hidden}, 0, tensor_ranks));
  all.push_back(made("columns", {hidden, 4 * hidden}, 1, tensor_ranks));
  Declaration bias = made("bias", {hidden}, -1, tensor_ranks).declaration();
  bias.gradient_partials = 4;
  all.emplace_back(bias);
  return all;
}

void expect_covered(const std::deque<Parameter>& parameters, int owners, int64_t least) {
  std::vector<int64_t> next(parameters.size());
  const Ownership all = owned_ranges(parameters, owners, least);
  EXPECT_EQ(std::ssize(all), owners);
  for (const auto& ranges : all) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (ranges[i].count == 0) continue;
      EXPECT_EQ(ranges[i].begin, next[i]);
      next[i] += ranges[i].count;
      const auto cuts = ownership_cuts(parameters[i]);
      EXPECT_TRUE(std::ranges::binary_search(cuts, ranges[i].begin));
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(next[i], parameters[i].local_elements()) << parameters[i].name();
}

TEST(Ownership, EveryElementHasOneOwnerAndRunsBeginAtCuts) {
  for (const int tensor_ranks : {1, 2, 4}) {
    for (const int64_t hidden : {8, 96, 768}) {
      const auto parameters = stage(tensor_ranks, hidden);
      for (const int owners : {1, 2, 3, 8}) {
        for (const int64_t least : kLeast) expect_covered(parameters, owners, least);
      }
    }
  }
}

/// What the norm relies on: a run holds whole partial sums of every canonical shard.
TEST(Ownership, CutsLieBetweenPartialSums) {
  for (const int tensor_ranks : {1, 2, 4}) {
    for (const Parameter& parameter : stage(tensor_ranks, 768)) {
      const int64_t shards = parameter.local_canonical_shards();
      const bool columns = parameter.declaration().shard.dim == 1 && shards > 1;
      const int64_t shard = parameter.local_elements() / shards;
      for (const int64_t cut : ownership_cuts(parameter)) {
        if (columns) {
          EXPECT_EQ(cut % parameter.local_shape()[1], 0);
          EXPECT_EQ(cut / shards % kBlock, 0);
        } else {
          EXPECT_EQ(cut % shard % kBlock, 0);
        }
      }
    }
  }
}

TEST(Ownership, SharesAreNearlyEqual) {
  const auto parameters = stage(1, 768);
  int64_t all = 0;
  for (const Parameter& parameter : parameters) all += parameter.local_elements();
  for (const int64_t least : kLeast) {
    for (const int owners : {2, 4, 8}) {
      for (const auto& ranges : owned_ranges(parameters, owners, least)) {
        int64_t sum = 0;
        for (const ElementRange& range : ranges) sum += range.count;
        // A unit of shards of columns, at either end, in the table and in the rest.
        EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(all) / owners, 4.0 * 4 * kBlock)
            << least << " " << owners;
      }
    }
  }
}

/// What a bucket holds goes to all owners, so that all receive at a time.
TEST(Ownership, EveryGroupIsSharedByAll) {
  std::deque<Parameter> blocks;
  for (int block = 0; block < 12; ++block) {
    for (const int64_t rows : {2304, 768, 3072, 3072})
      blocks.push_back(made("weight", {rows, 768}, 0, 1));
  }
  const auto groups = ownership_groups(blocks, kBucketElements);
  ASSERT_EQ(groups.size(), 12u);
  for (const auto& ranges : owned_ranges(blocks, 4, kBucketElements)) {
    for (const ParameterRun& group : groups) {
      int64_t elements = 0;
      for (size_t i = group.begin; i < group.end; ++i) elements += ranges[i].count;
      EXPECT_NEAR(static_cast<double>(elements), 9216 * 768 / 4, 2 * kBlock) << group.begin;
    }
  }
}

/// The stages at both ends of a pipeline have different neighbours of the tied table.
TEST(Ownership, ATiedTableIsCutByItself) {
  const auto first = stage(2, 768);
  std::deque<Parameter> last{made("blocks", {999, 768}, -1, 2), first[0]};
  for (const int64_t least : kLeast) {
    const Ownership of_first = owned_ranges(first, 3, least),
                    of_last = owned_ranges(last, 3, least);
    for (size_t owner = 0; owner < 3; ++owner) EXPECT_EQ(of_first[owner][0], of_last[owner][1]);
  }
}

/// The others are cut as if it were not there.
TEST(Ownership, AFrozenParameterHasNoOwner) {
  std::deque<Parameter> with = stage(2, 768), without;
  Declaration frozen = with[2].declaration();
  frozen.name = "frozen";
  frozen.trainable = false;
  for (size_t i = 0; i < with.size(); ++i) without.push_back(with[i]);
  with.insert(with.begin() + 3, Parameter(frozen));
  for (const int64_t least : kLeast) {
    const Ownership cut = owned_ranges(with, 3, least), expected = owned_ranges(without, 3, least);
    for (size_t owner = 0; owner < 3; ++owner) {
      std::vector<ElementRange> ranges = cut[owner];
      EXPECT_EQ(ranges[3], (ElementRange{0, 0}));
      ranges.erase(ranges.begin() + 3);
      EXPECT_EQ(ranges, expected[owner]) << least;
    }
  }
}

}  // namespace
}  // namespace megalith::parameters
