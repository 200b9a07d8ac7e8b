// SPDX-License-Identifier: Apache-2.0
#include "parallel/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/backends.h"

namespace megalith::parallel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Layout layout_of(int tensor, int pipeline, int data) {
  Layout layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = data;
  return layout;
}

TEST(Layout, TensorRunsFastestThenDataThenPipeline) {
  const Layout layout = layout_of(2, 3, 4);
  EXPECT_EQ(rank_of(layout, {1, 0, 0}), 1);
  EXPECT_EQ(rank_of(layout, {0, 0, 1}), 2);
  EXPECT_EQ(rank_of(layout, {0, 1, 0}), 8);
}

TEST(Layout, RanksAndCoordinatesAreInverse) {
  Layout layout = layout_of(2, 3, 4);
  std::sort(layout.order.begin(), layout.order.end());
  do {
    for (int rank = 0; rank < 24; ++rank) {
      EXPECT_EQ(rank_of(layout, coordinates_of(layout, rank)), rank);
    }
  } while (std::next_permutation(layout.order.begin(), layout.order.end()));
}

TEST(Layout, AllFaultsAreNamedAtOnce) {
  Layout layout = layout_of(3, 1, 4);
  layout.chunks = 2;
  layout.order = {Axis::tensor, Axis::tensor, Axis::pipeline};
  EXPECT_THAT(
      layout_faults(layout, {8, 2}),
      ElementsAre(
          HasSubstr("parallel.tensor 3 does not fit parallel.tensor_shards 8: use 1, 2, 4, 8"),
          HasSubstr("parallel.data 4 does not fit parallel.data_shards 2: use 1, 2"),
          HasSubstr("parallel.chunks 2"), HasSubstr("names tensor 2 times"),
          HasSubstr("names data 0 times")));
  EXPECT_THAT(layout_faults(layout_of(0, 1, 1), {1, 1}),
              ElementsAre(HasSubstr("parallel.tensor is 0")));
  EXPECT_THAT(layout_faults(layout_of(4, 5, 2), {8, 4}), ElementsAre());
}

TEST(Mesh, GroupsJoinTheRanksThatDifferInOneAxis) {
  Layout layout = layout_of(2, 2, 2);
  do {
    comm::run_ranks(
        8,
        [&](comm::Communicator& world) {
          const Mesh mesh(world, layout);
          EXPECT_EQ(rank_of(layout, mesh.at()), world.rank());
          for (const Axis axis : {Axis::tensor, Axis::data, Axis::pipeline}) {
            comm::Communicator& group = mesh.group(axis);
            ASSERT_EQ(group.size(), 2);
            EXPECT_EQ(group.rank(), mesh.at().of(axis));
            EXPECT_EQ(group.name(), name_of(axis));
            const std::vector<int> mine{mesh.at().tensor, mesh.at().pipeline, mesh.at().data};
            const auto all = group.exchange_values(std::span(mine), "coordinates");
            for (size_t i = 0; i < 3; ++i) {
              const bool varies = mine[i] != all[i] || mine[i] != all[i + 3];
              EXPECT_EQ(varies, i == (axis == Axis::tensor     ? 0u
                                      : axis == Axis::pipeline ? 1u
                                                               : 2u));
            }
          }
          EXPECT_EQ(mesh.is_first_stage(), mesh.at().pipeline == 0);
          EXPECT_EQ(mesh.is_last_stage(), mesh.at().pipeline == 1);
        },
        {30});
  } while (std::next_permutation(layout.order.begin(), layout.order.end()));
}

TEST(Mesh, ATracedRankKnowsItsGroups) {
  const auto device = device::make_trace_device({});
  const auto world = comm::make_traced_communicator(*device, 3071, 3072);
  const Mesh mesh(*world, layout_of(8, 64, 6));
  EXPECT_EQ(mesh.tensor().size(), 8);
  EXPECT_EQ(mesh.pipeline().size(), 64);
  EXPECT_EQ(mesh.data().size(), 6);
  EXPECT_TRUE(mesh.is_last_stage());
  EXPECT_EQ(mesh.pipeline().rank(), 63);
}

}  // namespace
}  // namespace megalith::parallel
