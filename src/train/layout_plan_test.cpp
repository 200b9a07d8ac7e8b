// SPDX-License-Identifier: Apache-2.0
// A plan is made of a few traced micro-batches and one rank per kind; the whole trace says the
// same.
#include "train/layout_plan.h"

#include <gtest/gtest.h>

#include <ctime>

#include "comm/backends.h"
#include "testing/toy_model.h"
#include "train/paper_table.h"
#include "train/piece_trace.h"
#include "train/traced_step.h"

namespace megalith::train {
namespace {

using megalith::testing::toy_settings;

const device::Target kTarget{device::DeviceKind::cpu, device::Isa::avx2, 1};

std::vector<Settings> layouts() {
  std::vector<Settings> all;
  const auto add = [&](const parallel::Layout& layout) -> Settings& {
    Settings s = toy_settings();
    s.layout = layout;
    s.architecture.layers = 5;
    s.batch.full = 24;
    return all.emplace_back(s);
  };
  add({});
  add({.tensor = 2, .pipeline = 3, .sequence = true});
  add({.pipeline = 2, .data = 2, .chunks = 2}).pipeline_schedule =
      parallel::ScheduleKind::interleaved;
  add({.data = 2}).zero = 1;
  Settings& thirds = add({.data = 3});  // of vectors that are not divisible
  thirds.split.data_shards = 3;
  add({.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}).zero = 1;
  return all;
}

account::Plan whole_trace(const Settings& s, int rank, const BesideSteps& beside) {
  return account::trace(kTarget, [&](device::Device& device) {
    const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
    traced_step(s, device, *world, beside);
  });
}

TEST(LayoutPlan, EqualsTheWholeTraceOfEveryRank) {
  for (const Settings& s : layouts()) {
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    ASSERT_EQ(std::ssize(plan.kind_of), s.layout.num_ranks());
    int ranks = 0;
    for (const RankPlan& kind : plan.kinds) ranks += kind.alike;
    EXPECT_EQ(ranks, s.layout.num_ranks());
    for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
      const account::Plan whole = whole_trace(s, rank, {});
      const RankPlan& kind = plan.of(rank);
      EXPECT_EQ(kind.memory, whole.memory) << rank;
      EXPECT_EQ(kind.work.flops, whole.work.flops) << rank;
      EXPECT_EQ(kind.work.bytes_wire, whole.work.bytes_wire) << rank;
      EXPECT_EQ(kind.work.bytes_read, whole.work.bytes_read) << rank;
      EXPECT_EQ(kind.wire_bytes, wire_bytes_by_kind(whole.records)) << rank;
    }
  }
}

/// Saves and validation make ranks of a stage unlike each other.
TEST(LayoutPlan, MemoryOfEveryRankWithWhatIsBesideTheSteps) {
  for (const Settings& s : layouts()) {
    for (const int64_t samples : {0, 3}) {
      const BesideSteps beside{samples, true, true};
      const auto memories = plan_memory(s, kTarget, beside);
      const LayoutPlan plan = plan_layout(s, kTarget, beside);
      EXPECT_TRUE(plan.is_exact);
      for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
        const account::MemoryByClass whole = whole_trace(s, rank, beside).memory;
        EXPECT_EQ(memories[static_cast<size_t>(rank)], whole) << rank;
        EXPECT_EQ(plan.of(rank).memory, whole) << rank;
      }
    }
  }
}

/// Beyond what is traced one by one, no rank takes more than is planned for it, and that is said.
TEST(LayoutPlan, VeryManyOwnersAreBoundByTheLargest) {
  Settings s = toy_settings();
  s.architecture.hidden = 768;
  s.architecture.ffn = 3072;
  s.architecture.vocab = 1 << 19;  // its tensors are larger than buckets of gradients
  s.bucket_elements = parameters::kBucketElements;
  s.split.data_shards = s.layout.data = 1024;
  s.batch.full = 1024 * s.micro_batch;
  s.zero = 1;
  const BesideSteps beside{.saves = true};
  const LayoutPlan plan = plan_layout(s, kTarget, beside);
  EXPECT_FALSE(plan.is_exact);
  ASSERT_EQ(plan.kinds.size(), 1u);
  EXPECT_EQ(plan.kinds[0].alike, 1024);
  // Ranks 1 and 2 write the moments of the largest tensor, and do not own most.
  for (const int rank : {0, 1, 2, 511, 1023}) {
    const account::MemoryByClass whole = whole_trace(s, rank, beside).memory;
    for (const auto memory_class : {device::MemoryClass::optimizer, device::MemoryClass::workspace})
      EXPECT_GE(plan.of(rank).memory.of(memory_class), whole.of(memory_class)) << rank;
    EXPECT_GE(plan.of(rank).memory.total, whole.total) << rank;
  }
}

TEST(LayoutPlan, BubbleOfEqualStagesIsTheFormula) {
  for (const int chunks : {1, 2}) {
    Settings s = toy_settings();
    s.layout = {.pipeline = 4, .chunks = chunks};
    s.pipeline_schedule = chunks == 1 ? parallel::ScheduleKind::one_forward_one_backward
                                      : parallel::ScheduleKind::interleaved;
    // Enough layers that the ends weigh little; their surplus is idle time of the other stages.
    s.architecture.layers = 512;
    s.split.data_shards = 1;
    s.micro_batch = 1;
    s.batch.full = 8;
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    EXPECT_EQ(plan.micro_batches, 8);
    EXPECT_NEAR(plan.bubble, 3.0 / (8.0 * chunks), 0.02);
  }
}

/// Reduce-scatter of gradients and all-gather of weights are the two halves of an all-reduce.
TEST(LayoutPlan, SpreadStateSendsNoMore) {
  Settings s = toy_settings();
  models::Architecture& a = s.architecture;
  a = {};
  a.layers = 2;
  a.hidden = 256;
  a.heads = a.kv_heads = 4;
  a.ffn = 1024;
  a.context = 16;
  a.vocab = 2048;
  a.tied = false;  // a tied table has gradients of two sides and weights once
  s.split = {1, 2};
  s.layout = {.data = 2};
  const LayoutPlan without = plan_layout(s, kTarget, {});
  s.zero = 1;
  const LayoutPlan with = plan_layout(s, kTarget, {});
  EXPECT_NEAR(static_cast<double>(with.kinds[0].work.bytes_wire),
              static_cast<double>(without.kinds[0].work.bytes_wire),
              0.01 * static_cast<double>(without.kinds[0].work.bytes_wire));
  EXPECT_LT(with.kinds[0].memory.of(device::MemoryClass::optimizer),
            without.kinds[0].memory.of(device::MemoryClass::optimizer) * 11 / 20);
}

TEST(LayoutPlan, TheLargestOfThePaperInSeconds) {
  Settings s = paper_settings(paper_models()[3], true, layers::Recompute::selective);
  s.paper_storage = false;
  for (const int data : {1, 6}) {
    s.layout.data = s.split.data_shards = data;
    s.batch.full = 512 * data;
    const std::clock_t begin = std::clock();  // of the processor: others may use the machine too
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    EXPECT_EQ(std::ssize(plan.kind_of), 512 * data);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 5);
    RecordProperty(data == 1 ? "seconds_512_ranks" : "seconds_3072_ranks", std::to_string(seconds));
  }
}

}  // namespace
}  // namespace megalith::train
