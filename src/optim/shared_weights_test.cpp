// SPDX-License-Identifier: Apache-2.0
// The sum over layers that share weights, on stages that hold any of them.
#include "optim/shared_weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/backends.h"
#include "parallel/rough_shards.h"

namespace megalith::optim {
namespace {

using parallel::rough_shard;
using Floats = std::vector<float>;

constexpr int64_t kRows = 9, kColumns = 21;  // with gaps behind them

/// A layer's sums of weights number `group`: rounding is different in every order.
Floats sums_of(int group, int use, int64_t elements) {
  return rough_shard(10 * group + use, elements);
}

/// (((last + the one before) + ...) + first).
Floats sum_of_uses(int group, int count, int64_t elements) {
  Floats sum = sums_of(group, count - 1, elements);
  for (int use = count - 1; use-- > 0;) {
    const Floats more = sums_of(group, use, elements);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  return sum;
}

/// The layers of a model, by virtual stage, and how many layers share weights.
struct Case {
  int stages;
  std::vector<int> layers;
  int layers_per_group;
};

void expect_sum(comm::Communicator& world, const Case& c, int64_t piece, bool frozen) {
  parallel::Layout layout{.pipeline = c.stages};
  layout.chunks = static_cast<int>(c.layers.size()) / c.stages;
  const parallel::Mesh mesh(world, layout);
  const auto device = device::make_cpu_device(1);
  world.set_device(device.get());
  parameters::ParameterSet set([&](parameters::Declaration& d) { d.trainable = !frozen; });
  const Shape shape{kRows, kColumns};
  int layer = 0;
  for (int stage = 0; stage < static_cast<int>(c.layers.size()); ++stage) {
    for (int i = 0; i < c.layers[static_cast<size_t>(stage)]; ++i, ++layer) {
      if (stage % c.stages != world.rank()) continue;
      set.begin_use({layer % c.layers_per_group, c.layers_per_group});
      for (const char* name : {"a", "b"}) {
        set.declare({fmt::format("{}.{}", layer / c.layers_per_group, name), shape,
                     Shard::whole(shape), parameters::Init{}});
      }
      set.end_use();
    }
  }
  set.allocate(*device, {.gradient_levels = 2, .bucket_elements = piece});
  set.select_level(1);
  const auto group_of = [&](const parameters::SharedWeights& shared) {
    return set.all()[shared.parameters.begin].name()[0] - '0';
  };
  for (size_t index = 0; index < set.shared().size(); ++index) {
    const parameters::SharedWeights& shared = set.shared()[index];
    for (size_t use = 0; use < shared.uses.size(); ++use) {
      const View sums = set.use_sums(index, use);
      const Floats values = sums_of(group_of(shared), shared.uses[use], sums.num_elements());
      std::memcpy(sums.data(), values.data(), static_cast<size_t>(sums.bytes()));
    }
  }
  kernels::Exec exec(*device);
  sum_uses(exec, mesh, set);
  EXPECT_EQ(exec.workspace.in_use(), 0);
  for (size_t index = 0; index < set.shared().size(); ++index) {
    const parameters::SharedWeights& shared = set.shared()[index];
    const View sums = set.use_sums(index, 0);
    EXPECT_EQ(sums.num_elements() == 0, frozen);
    const Floats expected = sum_of_uses(group_of(shared), c.layers_per_group, sums.num_elements());
    EXPECT_EQ(0, std::memcmp(sums.data(), expected.data(), static_cast<size_t>(sums.bytes())))
        << "stage " << world.rank() << ", weights " << group_of(shared);
  }
  world.set_device(nullptr);
}

TEST(SharedWeights, AreSummedFromTheLastLayerToTheFirstOnAnyStages) {
  const std::vector<Case> cases = {{1, {6}, 6},
                                   {1, {6}, 3},
                                   {2, {3, 3}, 6},
                                   {2, {1, 5}, 6},
                                   {3, {2, 1, 3}, 6},
                                   {3, {2, 2, 2}, 3},  // the middle stage has layers of both
                                   {2, {2, 2, 1, 1}, 6},
                                   {2, {1, 2, 2, 1}, 3},
                                   {3, {1, 1, 1, 1, 1, 1}, 6},
                                   {2, {1, 1, 1, 1, 1, 1}, 6},
                                   {3, {1, 1, 2, 1, 1, 2}, 4}};
  for (const Case& c : cases) {
    for (const int64_t piece : {64, 256, 1 << 20}) {
      for (const bool frozen : {false, true}) {
        SCOPED_TRACE(fmt::format("{} stages, {} chunks, {} layers a group, pieces of {}", c.stages,
                                 c.layers.size(), c.layers_per_group, piece));
        comm::run_ranks(c.stages,
                        [&](comm::Communicator& world) { expect_sum(world, c, piece, frozen); });
      }
    }
  }
}

}  // namespace
}  // namespace megalith::optim
