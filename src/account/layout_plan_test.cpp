// SPDX-License-Identifier: Apache-2.0
// A plan is made of a few traced micro-batches and one rank per class; the whole trace says the
// same.
#include "account/layout_plan.h"

#include <gtest/gtest.h>

#include <ctime>

#include "account/chunk_trace.h"
#include "account/paper_table.h"
#include "account/traced_step.h"
#include "comm/backends.h"
#include "families/families.h"
#include "kernels/reduction/norms.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

using megalith::testing::toy_settings;

const device::Target kTarget{device::DeviceKind::cpu, device::Isa::avx2, 1};

std::vector<engine::Settings> layouts() {
  std::vector<engine::Settings> all;
  const auto add = [&](const parallel::Layout& layout) -> engine::Settings& {
    engine::Settings s = toy_settings();
    s.layout = layout;
    s.model.set_num_layers(5);
    s.batch.full = 24;
    return all.emplace_back(s);
  };
  add({});
  add({.tensor = 2, .pipeline = 3, .sequence = true});
  add({.pipeline = 2, .data = 2, .chunks = 2}).pipeline_schedule =
      parallel::ScheduleKind::interleaved;
  add({.data = 2}).zero = 1;
  engine::Settings& thirds = add({.data = 3});  // of vectors that are not divisible
  thirds.split.data_shards = 3;
  add({.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}).zero = 1;
  return all;
}

account::Plan whole_trace(const engine::Settings& s, int rank, const BesideSteps& beside) {
  return account::trace(kTarget, [&](device::Device& device) {
    const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
    traced_step(s, device, *world, beside);
  });
}

TEST(LayoutPlan, EqualsTheWholeTraceOfEveryRank) {
  for (const engine::Settings& s : layouts()) {
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    ASSERT_EQ(std::ssize(plan.class_of), s.layout.num_ranks());
    int ranks = 0;
    for (const RankPlan& rank_class : plan.classes) ranks += rank_class.alike;
    EXPECT_EQ(ranks, s.layout.num_ranks());
    for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
      const account::Plan whole = whole_trace(s, rank, {});
      const RankPlan& rank_class = plan.of(rank);
      EXPECT_EQ(rank_class.memory, whole.memory) << rank;
      EXPECT_EQ(rank_class.work.flops, whole.work.flops) << rank;
      EXPECT_EQ(rank_class.work.bytes_wire, whole.work.bytes_wire) << rank;
      EXPECT_EQ(rank_class.work.bytes_read, whole.work.bytes_read) << rank;
      EXPECT_EQ(rank_class.wire_bytes, wire_bytes_by_kind(whole.records)) << rank;
    }
  }
}

/// Saves and validation make ranks of a stage unlike each other.
TEST(LayoutPlan, MemoryOfEveryRankWithWhatIsBesideTheSteps) {
  for (const engine::Settings& s : layouts()) {
    for (const int64_t samples : {0, 3}) {
      const BesideSteps beside{samples, true, true};
      const auto memories = plan_memory(s, kTarget, beside);
      const LayoutPlan plan = plan_layout(s, kTarget, beside);
      for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
        const account::MemoryByClass whole = whole_trace(s, rank, beside).memory;
        EXPECT_EQ(memories[static_cast<size_t>(rank)], whole) << rank;
        EXPECT_EQ(plan.of(rank).memory, whole) << rank;
      }
    }
  }
}

/// A thousand ranks that own and write unequal parts each have their own plan.
TEST(LayoutPlan, VeryManyOwnersAreExact) {
  engine::Settings s = toy_settings();
  // Its tensors are larger than buckets of gradients.
  s.model = models::gpt2({.layers = 3, .hidden = 768, .heads = 4, .context = 16, .vocab = 1 << 19});
  s.bucket_elements = parameters::kBucketElements;
  s.split.data_shards = s.layout.data = 1024;
  s.batch.full = 1024 * s.micro_batch;
  s.zero = 1;
  const BesideSteps beside{.saves = true};
  const auto memories = plan_memory(s, kTarget, beside);
  ASSERT_EQ(memories.size(), 1024u);
  // Ranks 1 and 2 write the moments of the largest tensor, and do not own most.
  for (const int rank : {0, 1, 2, 511, 1023})
    EXPECT_EQ(memories[static_cast<size_t>(rank)], whole_trace(s, rank, beside).memory) << rank;
}

TEST(LayoutPlan, BubbleOfEqualStagesIsTheFormula) {
  for (const int chunks : {1, 2}) {
    engine::Settings s = toy_settings();
    s.layout = {.pipeline = 4, .chunks = chunks};
    s.pipeline_schedule = chunks == 1 ? parallel::ScheduleKind::one_forward_one_backward
                                      : parallel::ScheduleKind::interleaved;
    // Enough layers that the ends weigh little.
    s.model.set_num_layers(512);
    s.split.data_shards = 1;
    s.micro_batch = 1;
    s.batch.full = 8;
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    EXPECT_EQ(plan.micro_batches, 8);
    // The busiest stage waits for chunks of the others, which are smaller than its own by that
    // much.
    const auto [least, most] = std::ranges::minmax(plan.timeline.busy);
    EXPECT_GT(least / most, 0.9);
    EXPECT_NEAR(plan.bubble, 3.0 / (8.0 * chunks), 3.0 / (8.0 * chunks) * (1 - least / most));
  }
}

/// Sent by all ranks together.
int64_t wire_bytes(const LayoutPlan& plan) {
  int64_t bytes = 0;
  for (const RankPlan& rank_class : plan.classes)
    bytes += rank_class.alike * rank_class.work.bytes_wire;
  return bytes;
}

/// Sizes of what a tensor rank has.
struct Elements {
  int64_t gradients = 0;  // of all sides and rows
  int64_t weights = 0;
  int64_t squares = 0;  // partial sums of the gradient's norm
};

Elements elements_of(const engine::Settings& s) {
  parameters::ParameterSet set;
  const models::Decoder declarations(s.model, set, models::Stage::whole(s.model),
                                     engine::partition_of(s, 0));
  Elements elements;
  elements.gradients = set.gradient_begin(set.all().size());
  for (const parameters::Parameter& parameter : set.all()) {
    const int64_t shards = parameter.local_canonical_shards();
    elements.weights += parameter.local_elements();
    elements.squares += shards * kernels::num_square_partials(parameter.local_elements() / shards);
  }
  return elements;
}

/// Reduce-scatter of gradients and all-gather of weights are the two halves of an all-reduce; what
/// is less and more is counted.
TEST(LayoutPlan, SpreadStateSendsNoMore) {
  struct Case {
    const char* name;
    bool tied;
    DType weights;
    int tensor, data;
  };
  for (const Case& c : {Case{"untied f32, d2", false, DType::f32, 1, 2},
                        {"tied f32, d2", true, DType::f32, 1, 2},
                        {"untied bf16, d2", false, DType::bf16, 1, 2},
                        {"tied f16, d2", true, DType::f16, 1, 2},
                        {"tied bf16, d4", true, DType::bf16, 1, 4},
                        {"untied f32, t2 d2", false, DType::f32, 2, 2},
                        {"tied bf16, t2 d4", true, DType::bf16, 2, 4}}) {
    engine::Settings s = toy_settings();
    s.model = models::gpt2({.layers = 2, .hidden = 256, .heads = 4, .context = 16, .vocab = 2048});
    s.model.head.tied = c.tied;
    s.weights = s.activations = c.weights;
    s.split = {c.tensor, 4};
    s.layout = {.tensor = c.tensor, .data = c.data};
    const LayoutPlan without = plan_layout(s, kTarget, {});
    s.zero = 1;
    const LayoutPlan with = plan_layout(s, kTarget, {});
    // To every other data rank, from each tensor rank.
    const Elements elements = elements_of(s);
    const int64_t others = c.tensor * (c.data - 1), gradients = others * elements.gradients * 4;
    const int64_t weights = others * elements.weights * bytes_of(c.weights);
    const int64_t squares = c.data * others * elements.squares * 8;
    EXPECT_EQ(wire_bytes(with) - wire_bytes(without), weights + squares - gradients) << c.name;
    if (c.tensor == 1) {
      const int64_t flags = c.data * others * 4;  // whether each rank's losses are finite
      EXPECT_EQ(wire_bytes(without), 2 * gradients + flags) << c.name;
    }
    EXPECT_LT(squares, gradients / 500) << c.name;
    EXPECT_LE(wire_bytes(with), wire_bytes(without) + squares) << c.name;
    EXPECT_LT(with.classes[0].memory.of(device::MemoryClass::optimizer),
              without.classes[0].memory.of(device::MemoryClass::optimizer) * 11 / (10 * c.data))
        << c.name;
  }
}

TEST(LayoutPlan, TheWorkOfTheLargestOfThePaperIsBounded) {
  engine::Settings s = paper_settings(paper_models()[3], true, layers::Recompute::selective);
  for (const int data : {1, 6}) {
    s.layout.data = s.split.data_shards = data;
    s.batch.full = 512 * data;
    const std::clock_t begin = std::clock();  // of the processor: others may use the machine too
    const LayoutPlan plan = plan_layout(s, kTarget, {});
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_EQ(std::ssize(plan.class_of), 512 * data);
    // What takes the time is counted, as processors differ: 64 stages, of two kinds of tensor ranks
    // and of two of data ranks, and the calls of a trace. Together they take about 4 s.
    EXPECT_LE(plan.classes.size(), data == 1 ? 128U : 256U);
    int64_t calls = 0;
    for (const device::Record& record : whole_trace(s, 0, {}).records) calls += record.calls;
    EXPECT_LE(calls, 60'000);
    RecordProperty(data == 1 ? "seconds_512_ranks" : "seconds_3072_ranks", std::to_string(seconds));
  }
}

}  // namespace
}  // namespace megalith::account
