// SPDX-License-Identifier: Apache-2.0
// The promise: any number of ranks that fits the shards gives the bits of one rank.
#include "parallel/canonical.h"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/backends.h"
#include "device/recorder.h"
#include "parallel/rough_shards.h"
#include "parallel/tree.h"

namespace megalith::parallel {
namespace {

using Floats = std::vector<float>;
struct Group {
  int shards, ranks;
};
constexpr Group kGroups[] = {{8, 1}, {8, 2}, {8, 4}, {8, 8}, {3, 1},
                             {3, 3}, {6, 1}, {6, 2}, {6, 6}};
constexpr int64_t kSizes[] = {0, 1, 2, 7, 8, 96, 1009};

bool same_bits(ConstView a, const Floats& b, int64_t begin = 0) {
  return a.num_elements() == 0 ||
         std::memcmp(a.data(), b.data() + begin, static_cast<size_t>(a.bytes())) == 0;
}

/// One rank's device, with the partial of its block of shards.
struct Bench {
  int shards = 8;
  std::unique_ptr<device::Device> device = device::make_cpu_device(1);
  kernels::Exec exec{*device};
  device::Tensor x = {};

  device::Tensor tensor(const Floats& values) {
    device::Tensor t = exec.workspace.tensor(DType::f32, {std::ssize(values)});
    device->wait(device->copy_to_device(t, values.data()));
    return t;
  }
  void load_partial(const comm::Communicator& comm, int64_t n) {
    const int each = shards / comm.size();
    x = tensor(tree_of_rough_shards(comm.rank() * each, (comm.rank() + 1) * each, n));
  }
};

void on_all_sizes(FunctionRef<void(comm::Communicator&, Bench&, int64_t n)> body) {
  for (const Group& group : kGroups) {
    comm::run_ranks(group.ranks,
                    [&](comm::Communicator& comm) {
                      Bench bench{group.shards};
                      for (const int64_t n : kSizes) body(comm, bench, n);
                      EXPECT_EQ(bench.exec.workspace.in_use(), bench.x.allocation.bytes());
                    },
                    {30});
  }
}

TEST(TreeAllReduce, HasTheBitsOfOneRank) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    bench.load_partial(comm, n);
    tree_all_reduce(bench.exec, comm, bench.x, "sum");
    EXPECT_TRUE(same_bits(bench.x, tree_of_rough_shards(0, bench.shards, n)))
        << n << ": " << bench.shards << " on " << comm.size();
  });
}

// Gradients: the shards of a rank one after the other in few buffers, then over the ranks.
TEST(TreeAllReduce, ShardsAccumulatedOnRanksHaveTheBitsOfOneTree) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    const int each = bench.shards / comm.size();
    const TreeAccumulator accumulator(each);
    std::vector<Floats> buffers(static_cast<size_t>(accumulator.num_buffers()));
    for (int s = 0; s < each; ++s) {
      buffers[static_cast<size_t>(accumulator.buffer_of(s))] =
          rough_shard(comm.rank() * each + s, n);
      for (const auto [into, from] : accumulator.additions_after(s)) {
        Floats& sum = buffers[static_cast<size_t>(into)];
        sum = added(sum, buffers[static_cast<size_t>(from)]);
      }
    }
    bench.x = bench.tensor(buffers[0]);
    tree_all_reduce(bench.exec, comm, bench.x, "gradients");
    EXPECT_TRUE(same_bits(bench.x, tree_of_rough_shards(0, bench.shards, n)))
        << n << ": " << bench.shards << " on " << comm.size();
  });
}

// The inputs can tell the tree from a fold: otherwise the tests above would prove nothing.
TEST(TreeAllReduce, AnotherOrderHasOtherBits) {
  for (const int shards : {6, 8}) {  // of three the tree is the fold
    Floats fold = rough_shard(0, 1009);
    for (int s = 1; s < shards; ++s) fold = added(fold, rough_shard(s, 1009));
    const Floats sum = tree_of_rough_shards(0, shards, 1009);
    EXPECT_NE(std::memcmp(fold.data(), sum.data(), sum.size() * sizeof(float)), 0);
  }
}

TEST(TreeAllReduce, SeveralMayBeUnderWay) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    bench.load_partial(comm, n);
    device::Tensor second = bench.tensor(Floats(7, static_cast<float>(comm.rank() + 1)));
    PendingAllReduce first = start_tree_all_reduce(bench.exec, comm, bench.x, "first");
    PendingAllReduce other = start_tree_all_reduce(bench.exec, comm, second, "second");
    finish(bench.exec, comm, std::move(first));
    finish(bench.exec, comm, std::move(other));
    EXPECT_TRUE(same_bits(bench.x, tree_of_rough_shards(0, bench.shards, n)));
    const auto s = static_cast<float>(comm.size());
    EXPECT_TRUE(same_bits(second, Floats(7, s * (s + 1) / 2)));
  });
}

TEST(TreeAllReduce, HalvesOfSeveralInAnyOrder) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    bench.load_partial(comm, n);
    const int64_t before = bench.exec.workspace.in_use();
    device::Tensor second = bench.tensor(Floats(7, static_cast<float>(comm.rank() + 1)));
    PendingAllReduce first = start_tree_all_reduce(bench.exec, comm, bench.x, "first");
    PendingAllReduce other = start_tree_all_reduce(bench.exec, comm, second, "second");
    start_second_half(bench.exec, comm, first);
    start_second_half(bench.exec, comm, other);
    EXPECT_EQ(bench.exec.workspace.in_use(), before + second.allocation.bytes());
    finish(bench.exec, comm, std::move(other));
    finish(bench.exec, comm, std::move(first));
    EXPECT_TRUE(same_bits(bench.x, tree_of_rough_shards(0, bench.shards, n)));
    const auto s = static_cast<float>(comm.size());
    EXPECT_TRUE(same_bits(second, Floats(7, s * (s + 1) / 2)));
  });
}

TEST(TreeReduceScatter, GivesEachRankItsRows) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    bench.load_partial(comm, 3 * n);
    const View x_TH = bench.x.view.reshape({n, 3});
    const comm::Part part = comm::part_of(n, comm.rank(), comm.size());
    const device::Tensor y = bench.exec.workspace.tensor(DType::f32, {part.count, 3});
    const Floats sum = tree_of_rough_shards(0, bench.shards, 3 * n);
    tree_reduce_scatter(bench.exec, comm, x_TH, y, Store::overwrite, "rows");
    EXPECT_TRUE(same_bits(y, sum, part.begin * 3));
    tree_reduce_scatter(bench.exec, comm, x_TH, y, Store::accumulate, "rows again");
    EXPECT_TRUE(same_bits(y, added(sum, sum), part.begin * 3));
  });
}

TEST(TreeReduceScatter, ScratchIsTheSizeOfThePartial) {
  comm::run_ranks(4, [](comm::Communicator& comm) {
    Bench bench;
    bench.load_partial(comm, 4096);
    const int64_t before = bench.exec.workspace.in_use();
    tree_all_reduce(bench.exec, comm, bench.x, "sum");
    EXPECT_EQ(bench.exec.workspace.high_water() - before, 4096 * 4);
  });
}

// The traced rank allocates and counts what the real one does.
TEST(TreeAllReduce, TraceEqualsTheRealRun) {
  comm::run_ranks(2, [](comm::Communicator& comm) {
    const auto traced_device = device::make_trace_device({});
    const auto traced = comm::make_traced_communicator(*traced_device, comm.rank(), 2);
    Bench bench;
    device::Recorder recorder, traced_recorder;
    bench.device->set_recorder(&recorder);
    traced_device->set_recorder(&traced_recorder);
    comm.set_device(bench.device.get());
    kernels::Exec traced_exec(*traced_device);
    {
      bench.load_partial(comm, 1009);
      const device::Tensor x = traced_exec.workspace.tensor(DType::f32, {1009});
      tree_all_reduce(bench.exec, comm, bench.x, "sum");
      tree_all_reduce(traced_exec, *traced, x, "sum");
    }
    comm.set_device(nullptr);
    EXPECT_EQ(bench.exec.workspace.high_water(), traced_exec.workspace.high_water());
    EXPECT_EQ(recorder.total().bytes_wire, traced_recorder.total().bytes_wire);
    EXPECT_EQ(traced_recorder.total().bytes_wire,
              comm.rank() == 0 ? 4 * (504 + 505) : 4 * (505 + 504));
  });
}

TEST(AllGatherRows, JoinsPartsOfAnyType) {
  on_all_sizes([](comm::Communicator& comm, Bench& bench, int64_t n) {
    const device::Tensor whole = bench.exec.workspace.tensor(DType::bf16, {n, 5});
    const View own = own_rows(comm, whole.view);
    const comm::Part part = comm::part_of(n, comm.rank(), comm.size());
    for (int64_t i = 0; i < own.num_elements(); ++i) {
      own.as<bf16_t>()[i].bits = static_cast<uint16_t>(part.begin * 5 + i);
    }
    all_gather_rows(bench.exec, comm, own, whole, "rows");
    for (int64_t i = 0; i < whole.view.num_elements(); ++i) {
      ASSERT_EQ(whole.view.as<bf16_t>()[i].bits, static_cast<uint16_t>(i));
    }
  });
}

}  // namespace
}  // namespace megalith::parallel
