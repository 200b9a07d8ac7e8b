// SPDX-License-Identifier: Apache-2.0
// What is planned is what is taken, to the byte; and requests of all kinds stay within it.
#include "generate/block_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "comm/backends.h"
#include "generate/batch_testing.h"
#include "low_rank/adapter_scale.h"
#include "testing/toy_adapter.h"

namespace megalith::generate {
namespace {

using ::testing::HasSubstr;

constexpr Scheduler::Limits kLimits{.sequences = 6, .tokens = 96, .waiting = 64};

class BlockPlanTest
    : public ::testing::TestWithParam<std::tuple<const char*, DType, parallel::Layout>> {};

TEST_P(BlockPlanTest, IsWhatIsTaken) {
  const auto& [family, dtype, layout] = GetParam();
  const models::ModelSpec spec = spec_named(family);
  const inference::InferenceModel::Options options{
      .compute = dtype, .tensor_shards = 2, .layout = layout};
  const std::vector<RankMemory> ranks =
      plan_memory(spec, options, device::cpu_target(2), kLimits, kContext);
  ASSERT_EQ(std::ssize(ranks), layout.num_ranks());
  int64_t limit = 0;
  for (const RankMemory& rank : ranks)
    limit += rank.weights + rank.pass +
             20 * std::accumulate(rank.block.begin(), rank.block.end(), int64_t{0});
  const BlockPlan plan = plan_blocks(spec, ranks, kLimits, kContext, limit);
  const std::vector<int64_t>& blocks = plan.blocks;
  int64_t total = 0, next = 0;
  for (const RankMemory& rank : ranks) {
    total += rank.total(blocks);
    next += rank.total(blocks) + std::accumulate(rank.block.begin(), rank.block.end(), int64_t{0});
  }
  EXPECT_EQ(plan.model_bytes + plan.block_bytes, total);
  EXPECT_LE(total, limit);
  EXPECT_GT(next, limit);
  comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
    const int64_t planned = ranks[static_cast<size_t>(world.rank())].total(blocks);
    const auto device = device::make_cpu_device(2);
    inference::InferenceModel model(spec, *device, world, options);
    for (parameters::Parameter& parameter : model.parameters().all())
      device->wait(device->fill_zero(parameter.mutable_compute()));
    {
      BatchGenerator generator(model.engine(), nullptr, {.limits = kLimits, .blocks = blocks});
      for (Request& request : searches(spec, 18)) {
        request.options.beams = std::min(request.options.beams, kLimits.sequences);
        ASSERT_TRUE(generator.submit(std::move(request)));
      }
      for (Request& request : guessed_requests(spec, 18))
        ASSERT_TRUE(generator.submit(std::move(request)));
      while (generator.step()) {
      }
      EXPECT_LE(device->total().peak, planned) << "rank " << world.rank();
    }
    const inference::KvBlocks kv(model.engine().model(), blocks);
    run_largest_passes(model.engine(), kv, kLimits, kContext);
    EXPECT_EQ(device->total().peak, planned) << "rank " << world.rank();
  });
}

INSTANTIATE_TEST_SUITE_P(All, BlockPlanTest,
                         ::testing::Combine(::testing::Values("gpt2", "gemma3_text", "t5"),
                                            ::testing::Values(DType::f32, DType::bf16),
                                            ::testing::Values(parallel::Layout{},
                                                              parallel::Layout{.tensor = 2},
                                                              parallel::Layout{.pipeline = 2})));

// Two adapters of other ranks and one of vectors, used beside each other and beside none.
TEST_P(BlockPlanTest, WithAdaptersIsWhatIsTaken) {
  const auto& [family, dtype, layout] = GetParam();
  const models::ModelSpec spec = spec_named(family);
  const inference::InferenceModel::Options options{
      .compute = dtype, .tensor_shards = 2, .layout = layout};
  std::vector<layers::AdapterRanks> adapters(2, testing::toy_adapter_ranks(spec));
  for (auto& [weight, rank] : adapters[1]) rank = {40 - rank.rank, 20};
  adapters.push_back(testing::toy_vector_ranks(spec));
  adapters.push_back(testing::toy_adapter_ranks(spec, true));
  adapters.push_back(testing::toy_bottleneck_ranks(spec));
  const std::vector<RankMemory> without =
      plan_memory(spec, options, device::cpu_target(2), kLimits, kContext);
  const std::vector<RankMemory> ranks =
      plan_memory(spec, options, device::cpu_target(2), kLimits, kContext, adapters);
  const std::vector<int64_t> blocks =
      plan_blocks(spec, ranks, kLimits, kContext, int64_t{1} << 40).blocks;
  comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    EXPECT_GT(ranks[rank].weights, without[rank].weights);
    const int64_t planned = ranks[rank].total(blocks);
    const auto device = device::make_cpu_device(2);
    inference::InferenceModel model(spec, *device, world, options);
    for (parameters::Parameter& parameter : model.parameters().all())
      device->wait(device->fill_zero(parameter.mutable_compute()));
    std::vector<std::shared_ptr<layers::Adapter>> loaded;
    for (const layers::AdapterRanks& each : adapters) {
      loaded.push_back(std::make_shared<layers::Adapter>(model.parameters(), *device, each));
      for (auto& [weight, factors] : loaded.back()->factors()) {
        for (const auto* tensor :
             {&factors.a_IR, &factors.b_PO, &factors.input_I, &factors.output_O, &factors.scale_O,
              &factors.down_RH, &factors.down_bias_R, &factors.up_HR, &factors.up_bias_H})
          if (!tensor->view.absent()) device->wait(device->fill_zero(*tensor));
      }
    }
    EXPECT_EQ(device->total().in_use, ranks[rank].weights);
    engine::ShardedModel& sharded = model.engine().model();
    for (size_t i = 0; i < adapters.size(); ++i)
      low_rank::plan_scales(sharded.exec(), sharded.mesh().tensor(), sharded.parameters(),
                            adapters[i], *loaded[i]);
    {
      BatchGenerator generator(model.engine(), nullptr, {.limits = kLimits, .blocks = blocks});
      uint64_t number = 0;
      for (Request& request : requests_of(spec, 18)) {
        if (++number % 6 != 0) request.adapter = {loaded[number % 6 - 1], number % 6};
        ASSERT_TRUE(generator.submit(std::move(request)));
      }
      while (generator.step()) {
      }
      EXPECT_LE(device->total().peak, planned) << "rank " << rank;
    }
    const inference::KvBlocks kv(model.engine().model(), blocks);
    for (const auto& adapter : loaded) {
      model.engine().model().set_adapter(adapter.get());
      run_largest_passes(model.engine(), kv, kLimits, kContext);
    }
    EXPECT_EQ(device->total().peak, planned) << "rank " << rank;
  });
}

TEST(PlanBlocks, RefusesWithTheNumbers) {
  const models::ModelSpec spec = spec_named("gpt2");
  constexpr int64_t kGib = int64_t{1} << 30;
  const std::vector<RankMemory> ranks = {{.weights = 2 * kGib, .pass = kGib, .block = {kGib / 4}}};
  // 256 tokens are four blocks.
  const auto planned = [&](int64_t bytes, int64_t outside = 0) {
    return plan_blocks(spec, ranks, kLimits, 256, bytes, outside);
  };
  EXPECT_EQ(planned(4 * kGib).blocks, (std::vector<int64_t>{4}));
  EXPECT_EQ(planned(4 * kGib).sequences, 1);
  const BlockPlan most = planned(5 * kGib - 1);
  EXPECT_EQ(most.blocks, (std::vector<int64_t>{7}));
  EXPECT_EQ(most.sequences, 1.75);
  EXPECT_EQ(most.model_bytes, 3 * kGib);
  EXPECT_EQ(most.block_bytes, 7 * kGib / 4);
  EXPECT_EQ(planned(99 * kGib).blocks, (std::vector<int64_t>{24}));
  EXPECT_EQ(planned(99 * kGib).sequences, kLimits.sequences);
  EXPECT_EQ(planned(5 * kGib, kGib).model_bytes, 4 * kGib);
  EXPECT_EQ(planned(5 * kGib, kGib).block_bytes, kGib);
  EXPECT_THROW(planned(4 * kGib - 1), UserError);
  EXPECT_THROW(planned(5 * kGib - 1, kGib), UserError);
  try {
    planned(17 * kGib / 4, kGib / 2);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("weights of 2.00 GiB, 1.00 GiB for a pass of 96 tokens, "
                          "512 MiB for the program and 1.00 GiB for the keys and "
                          "values of one text of 256 tokens are 4.50 GiB, and 4.25 GiB may"));
  }
}

/// A window's group has blocks for windows, not for texts.
TEST(PlanBlocks, SharesByWhatSequencesTake) {
  const models::ModelSpec spec = spec_named("gemma3_text");
  const std::vector<int64_t> one =
      BlockStore::needed(inference::kv_groups(spec), {.positions = 4096}, kLimits.tokens);
  ASSERT_EQ(one.size(), 2U);
  const std::vector<RankMemory> ranks = {{.weights = 0, .pass = 0, .block = {1000, 1000}}};
  const BlockPlan plan = plan_blocks(spec, ranks, kLimits, 4096, 3 * 1000 * (one[0] + one[1]));
  EXPECT_EQ(plan.blocks, (std::vector<int64_t>{3 * one[0], 3 * one[1]}));
  EXPECT_EQ(plan.sequences, 3);
}

/// Ranks share the layers and heads, so as many blocks take as many bytes.
TEST(PlanBlocks, IsOfAllRanksTogether) {
  const models::ModelSpec spec = spec_named("llama");
  const auto planned = [&](const parallel::Layout& layout) {
    const std::vector<RankMemory> ranks = plan_memory(spec, {.tensor_shards = 2, .layout = layout},
                                                      device::cpu_target(1), kLimits, kContext);
    return plan_blocks(spec, ranks, kLimits, kContext, int64_t{1} << 40);
  };
  const BlockPlan one = planned({}), four = planned({.tensor = 2, .pipeline = 2});
  EXPECT_EQ(four.blocks, one.blocks);
  EXPECT_EQ(four.block_bytes, one.block_bytes);
  EXPECT_GT(four.model_bytes, one.model_bytes);
}

}  // namespace
}  // namespace megalith::generate
