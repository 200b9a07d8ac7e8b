// SPDX-License-Identifier: Apache-2.0
#include "parallel/rank_blocks.h"

#include <gtest/gtest.h>

#include "comm/backends.h"
#include "parallel/rough_shards.h"

namespace megalith::parallel {
namespace {

struct Blocks {
  int ranks, size;
};
constexpr Blocks kBlocks[] = {{1, 1}, {2, 2}, {4, 2}, {4, 4}, {3, 3}, {6, 3}, {6, 2}, {4, 1}};

TEST(RankBlocks, GatherGivesEveryRankTheRowsOfItsBlock) {
  for (const auto& [ranks, size] : kBlocks) {
    comm::run_ranks(ranks, [&, size = size](comm::Communicator& group) {
      const auto device = device::make_cpu_device(1);
      kernels::Exec exec(*device);
      const device::Tensor parts = exec.workspace.tensor(DType::f32, {size, 2});
      const int first = group.rank() / size * size;
      float* const own = parts.view.row<float>(group.rank() - first);
      own[0] = static_cast<float>(group.rank());
      own[1] = -own[0];
      gather_in_block(group, size, parts, "parts");
      for (int j = 0; j < size; ++j) {
        EXPECT_EQ(parts.view.row<float>(j)[0], static_cast<float>(first + j));
        EXPECT_EQ(parts.view.row<float>(j)[1], -static_cast<float>(first + j));
      }
    });
  }
}

/// Rows that do not divide evenly, fewer than ranks, none.
TEST(RankBlocks, SumIsTheCanonicalTreeOfTheBlock) {
  constexpr int64_t kColumns = 3;
  for (const auto& [ranks, size] : kBlocks) {
    for (const int64_t rows : {8, 7, 1, 0}) {
      comm::run_ranks(ranks, [&, size = size](comm::Communicator& group) {
        const auto device = device::make_cpu_device(1);
        kernels::Exec exec(*device);
        const device::Tensor x = exec.workspace.tensor(DType::f32, {rows, kColumns});
        const std::vector<float> mine = rough_shard(group.rank(), rows * kColumns);
        device->wait(device->copy_to_device(x, mine.data()));
        tree_sum_in_block(exec, group, size, x, "sum");
        const int first = group.rank() / size * size;
        const auto expected = tree_of_rough_shards(first, first + size, rows * kColumns);
        for (int64_t i = 0; i < x.view.num_elements(); ++i)
          EXPECT_EQ(x.view.as<float>()[i], expected[static_cast<size_t>(i)]) << i;
      });
    }
  }
}

}  // namespace
}  // namespace megalith::parallel
