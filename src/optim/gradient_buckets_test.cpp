// SPDX-License-Identifier: Apache-2.0
// Whatever the buckets, the sums are the canonical tree's to the bit, the bytes on the wire the
// same, and nothing waits for the end of backward that need not.
#include "optim/gradient_buckets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "comm/backends.h"
#include "device/recorder.h"
#include "parallel/rough_shards.h"

namespace megalith::optim {
namespace {

using parallel::rough_shard;
using parallel::tree_of_rough_shards;

using parameters::Declaration;
using parameters::Init;
using parameters::Parameter;
using parameters::ParameterRun;
using Floats = std::vector<float>;

constexpr int kShards = 4;  // over all ranks
constexpr int64_t kWhole = int64_t{1} << 20;

/// A tied table, a matrix that is larger than most buckets, a bias with partial rows, a vector.
void declare(parameters::ParameterSet& set) {
  const Shape table{96, 32}, matrix{200, 160}, bias{48}, vector{7};
  Declaration tied{"table", table, Shard::whole(table), Init{}};
  tied.num_gradients = 2;
  set.declare(tied);
  set.declare({"matrix", matrix, Shard::whole(matrix), Init{}});
  Declaration partials{"bias", bias, Shard::whole(bias), Init{}};
  partials.gradient_partials = 4;
  set.declare(partials);
  set.declare({"vector", vector, Shard::whole(vector), Init{}});
}

/// One rank: gradients of its data shards in the levels of its tree, before the last additions.
struct Rank {
  Rank(comm::Communicator& its_comm, bool spread, int64_t bucket_elements)
      : comm(its_comm), tree(kShards / comm.size()) {
    declare(set);
    set.allocate(*device, {.gradient_levels = tree.num_buffers(),
                           .owner = spread ? comm.rank() : 0,
                           .owners = spread ? comm.size() : 1,
                           .bucket_elements = bucket_elements});
    const int each = tree.num_shards();
    for (int s = 0; s < each; ++s) {
      set.select_level(tree.buffer_of(s));  // as backward has it
      const View level = set.flat_gradient_sums(tree.buffer_of(s));
      const Floats values = rough_shard(comm.rank() * each + s, level.num_elements());
      std::memcpy(level.data(), values.data(), static_cast<size_t>(level.bytes()));
      if (s + 1 == each) break;
      for (const auto& [into, from] : tree.additions_after(s)) {
        float* const sum = set.flat_gradient_sums(into).as<float>();
        const float* const x = set.flat_gradient_sums(from).as<float>();
        for (int64_t i = 0; i < level.num_elements(); ++i) sum[i] += x[i];
      }
    }
  }
  GradientBuckets buckets() {
    return {exec, comm, set, tree.additions_after(tree.num_shards() - 1)};
  }
  /// One parameter after the other, from the last.
  void reduce() {
    GradientBuckets buckets = this->buckets();
    for (size_t i = set.all().size(); i-- > 0;) buckets.complete({i, i + 1});
    buckets.finish();
  }
  comm::Communicator& comm;
  parallel::TreeAccumulator tree;
  std::unique_ptr<device::Device> device = device::make_cpu_device(1);
  kernels::Exec exec{*device};
  parameters::ParameterSet set;
};

/// Of what this rank owns.
void expect_sums(Rank& rank, const std::string& what) {
  const View flat = rank.set.flat_gradient_sums();
  const Floats expected = tree_of_rough_shards(0, kShards, flat.num_elements());
  size_t i = 0;
  for (const Parameter& parameter : rank.set.all()) {
    const int64_t begin = rank.set.gradient_begin(i++);
    for (int which = 0; which < parameter.num_gradients(); ++which) {
      const View sum = parameter.gradient_sum(which);
      const int64_t at = (sum.data() - flat.data()) / bytes_of(DType::f32);
      if (which == 0) {
        EXPECT_EQ(at, begin);
      }
      const bool has_rows = parameter.declaration().gradient_partials > 1;
      const int64_t count =
          has_rows && parameter.owned().count > 0 ? sum.num_elements() : parameter.owned().count;
      const int64_t from = at + parameter.owned().begin;
      EXPECT_EQ(0, std::memcmp(flat.as<float>() + from, expected.data() + from,
                               static_cast<size_t>(count) * sizeof(float)))
          << what << ": " << parameter.name() << ", gradient " << which;
    }
  }
}

TEST(GradientBuckets, HaveTheBitsOfTheTreeWhateverTheirSize) {
  for (const int ranks : {1, 2, 4}) {
    for (const bool spread : {false, true}) {
      for (const int64_t elements : {int64_t{64}, int64_t{4096}, kWhole}) {
        comm::run_ranks(ranks, [&](comm::Communicator& comm) {
          Rank rank(comm, spread, elements);
          rank.reduce();
          expect_sums(rank,
                      fmt::format("{} ranks, spread {}, {} elements", ranks, spread, elements));
          EXPECT_EQ(rank.exec.workspace.in_use(), 0);
        });
      }
    }
  }
}

/// Calls that put bytes on the wire, and those bytes, of one reduction.
struct Traffic {
  int64_t starts = 0;
  int64_t bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

Traffic traffic_of(const device::Recorder& recorder) {
  Traffic traffic;
  for (const device::Record& record : recorder.records()) {
    if (record.name == "all_to_all" || record.name == "send" || record.name == "receive")
      traffic.starts += record.calls;
    traffic.bytes += record.work.bytes_wire;
  }
  return traffic;
}

TEST(GradientBuckets, BytesOnTheWireDoNotDependOnTheirSize) {
  for (const int64_t elements : {int64_t{64}, int64_t{4096}, kWhole}) {
    comm::run_ranks(4, [&](comm::Communicator& comm) {
      Rank rank(comm, false, elements);
      device::Recorder recorder;
      rank.device->set_recorder(&recorder);
      comm.set_device(rank.device.get());
      rank.reduce();
      comm.set_device(nullptr);
      const int64_t all = rank.set.flat_gradient_sums().num_elements();
      const Traffic traffic = traffic_of(recorder);
      EXPECT_EQ(traffic.bytes, 2 * 3 * all);  // 2 (d-1)/d of 4 bytes each
      EXPECT_EQ(traffic.starts, ceil_div(all, elements));
    });
  }
}

TEST(GradientBuckets, StartAsSoonAsAllTheirElementsAreComplete) {
  for (const bool spread : {false, true}) {
    comm::run_ranks(2, [&](comm::Communicator& comm) {
      Rank rank(comm, spread, 4096);
      device::Recorder recorder;
      rank.device->set_recorder(&recorder);
      comm.set_device(rank.device.get());
      GradientBuckets buckets = rank.buckets();
      const auto starts_after = [&](size_t parameter) {
        const int64_t before = traffic_of(recorder).starts;
        buckets.complete({parameter, parameter + 1});
        return traffic_of(recorder).starts - before;
      };
      if (spread) {  // groups: table | matrix | bias, vector
        EXPECT_EQ(starts_after(3), 0);
        EXPECT_GT(starts_after(2), 0);
        EXPECT_GT(starts_after(1), 0);
        EXPECT_GT(starts_after(0), 0);
      } else {  // from the end: 256 elements, then 32,000, then 6,144
        EXPECT_EQ(starts_after(3), 0);
        EXPECT_EQ(starts_after(2), 0);
        EXPECT_EQ(starts_after(1), 7);
        EXPECT_EQ(starts_after(0), 3);
      }
      buckets.finish();
      comm.set_device(nullptr);
      expect_sums(rank, "one after the other");
    });
  }
}

TEST(GradientBuckets, ScratchIsThatOfTwo) {
  comm::run_ranks(2, [&](comm::Communicator& comm) {
    Rank rank(comm, false, 4096);
    rank.reduce();
    EXPECT_EQ(rank.exec.workspace.high_water(), 2 * 4096 * 4);
  });
}

TEST(GradientBuckets, AParameterOutOfOrderOrLeftOutIsAnError) {
  const auto device = device::make_cpu_device(1);
  const auto comm = comm::make_self_communicator(*device);
  Rank rank(*comm, false, 64);
  GradientBuckets skipped = rank.buckets();
  skipped.complete({3, 4});
  EXPECT_THROW(skipped.complete({1, 2}), InternalError);
  GradientBuckets unfinished = rank.buckets();
  unfinished.complete({1, 4});
  EXPECT_THROW(unfinished.finish(), InternalError);
}

}  // namespace
}  // namespace megalith::optim
