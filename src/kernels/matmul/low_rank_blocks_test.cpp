// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/low_rank_blocks.h"

#include <gmock/gmock.h>

#include <random>

namespace megalith::kernels {
namespace {

/// Ranks by output, from runs of (outputs, ranks), and the blocks of them.
using Runs = std::vector<std::pair<int, Range>>;
std::vector<Range> spread(const Runs& runs) {
  std::vector<Range> ranks;
  for (const auto& [count, range] : runs)
    ranks.insert(ranks.end(), static_cast<size_t>(count), range);
  return ranks;
}
std::vector<Range> in_turns(int pairs, Range one, Range other) {
  std::vector<Range> ranks;
  for (int i = 0; i < pairs; ++i) ranks.insert(ranks.end(), {one, other});
  return ranks;
}
std::string text_of(const std::vector<LowRankBlock>& blocks) {
  std::string text;
  for (const auto& [columns, first, ranks] : blocks)
    text += fmt::format("{}-{}: {},{} x{} ", columns.begin, columns.end, first[0], first[1], ranks);
  return text;
}

TEST(AdapterBlocks, AreModulesSideBySideOrInTurns) {
  EXPECT_EQ(text_of(blocks_of(spread({{4, {0, 3}}, {2, {3, 5}}, {2, {5, 8}}}))),
            "0-4: 0,0 x3 4-6: 3,3 x2 6-8: 5,5 x3 ");
  EXPECT_EQ(text_of(blocks_of(spread({{4, {}}, {2, {0, 2}}, {1, {}}}))), "4-6: 0,0 x2 ");
  EXPECT_EQ(text_of(blocks_of(in_turns(3, {0, 4}, {4, 8}))), "0-6: 0,4 x4 ");
  EXPECT_EQ(text_of(blocks_of(in_turns(3, {0, 2}, {2, 8}))), "0-6: 0,0 x8 ");
  EXPECT_EQ(text_of(blocks_of(in_turns(3, {0, 4}, {}))), "0-6: 0,0 x4 ");
  EXPECT_EQ(text_of(blocks_of(in_turns(3, {}, {0, 4}))), "1-6: 0,0 x4 ");
  EXPECT_EQ(text_of(blocks_of({})), "");
  EXPECT_EQ(text_of(blocks_of(spread({{3, {}}}))), "0-3: 0,0 x0 ");
}

// A shard's columns are those of the whole, wherever it is cut, in two parts too.
TEST(AdapterBlocks, GiveTheValuesOfTheWholeFactor) {
  std::mt19937 random(1);
  constexpr int64_t kRank = 9;
  for (const std::vector<Range>& ranks :
       {spread({{5, {0, 3}}, {3, {3, 4}}, {4, {4, 9}}}), in_turns(6, {0, 4}, {4, 8}),
        in_turns(6, {0, 2}, {2, 9}), spread({{3, {}}, {7, {2, 9}}, {2, {}}})}) {
    const auto outputs = std::ssize(ranks);
    const int64_t most = packed_rank(blocks_of(ranks));
    for (const Shard& part : {Shard{0, 0, outputs}, Shard{0, 2, 4}, Shard{0, 1, 3, 7, 4}}) {
      const auto blocks = blocks_of(ranks, part);
      std::vector<Range> held;
      for (const ShardRun& run : part.runs())
        for (int64_t i = 0; i < run.count; ++i)
          held.push_back(ranks[static_cast<size_t>(run.begin + i)]);
      const auto columns = std::ssize(held);
      std::vector<float> whole(static_cast<size_t>(kRank * columns));
      for (int64_t o = 0; o < columns; ++o)
        for (int64_t r = held[static_cast<size_t>(o)].begin; r < held[static_cast<size_t>(o)].end;
             ++r)
          whole[static_cast<size_t>(r * columns + o)] = static_cast<float>(1 + random() % 9);
      const std::vector<float> small = packed(whole, columns, blocks, most);
      std::vector<float> again(whole.size());
      for (const auto& [range, first, count] : blocks) {
        ASSERT_LE(count, most);
        for (int64_t o = range.begin; o < range.end; ++o)
          for (int64_t r = 0; r < count; ++r)
            again[static_cast<size_t>(
                (first[static_cast<size_t>(o - range.begin) % 2] + r) * columns + o)] =
                small[static_cast<size_t>(r * columns + o)];
      }
      EXPECT_EQ(again, whole) << text_of(blocks);
    }
  }
}

}  // namespace
}  // namespace megalith::kernels
