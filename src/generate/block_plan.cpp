// SPDX-License-Identifier: Apache-2.0
#include "generate/block_plan.h"

#include <algorithm>

#include "base/check.h"
#include "comm/backends.h"
#include "low_rank/adapter_scale.h"
#include "report/quantity.h"

namespace megalith::generate {
namespace {

/// Blocks of each group that one sequence takes at most.
std::vector<int64_t> blocks_of_one(const models::ModelSpec& spec, const Scheduler::Limits& limits,
                                   int64_t context) {
  return BlockStore::needed(inference::kv_groups(spec), {.positions = context, .memory = context},
                            limits.tokens);
}

/// Of one rank, with blocks for one sequence to measure them by.
RankMemory plan_rank(const models::ModelSpec& spec,
                     const inference::InferenceModel::Options& options, int rank,
                     const device::Target& target, const Scheduler::Limits& limits, int64_t context,
                     std::span<const layers::AdapterRanks> adapters) {
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, rank, options.layout.num_ranks());
  inference::InferenceModel model(spec, *device, *world, options);
  engine::ShardedModel& sharded = model.engine().model();
  std::vector<std::unique_ptr<layers::Adapter>> loaded;
  for (const layers::AdapterRanks& ranks : adapters)
    loaded.push_back(std::make_unique<layers::Adapter>(model.parameters(), *device, ranks));
  RankMemory memory{.weights = device->total().in_use};
  const std::vector<int64_t> one = blocks_of_one(spec, limits, context);
  const inference::KvBlocks blocks(sharded, one);
  for (size_t g = 0; g < one.size(); ++g)
    memory.block.push_back(exact_div(blocks.bytes(g), one[g]));
  const int64_t before = device->total().in_use;
  run_largest_passes(model.engine(), blocks, limits, context);
  // What rows with different adapters take lies between what all take with either.
  for (size_t i = 0; i < loaded.size(); ++i) {
    low_rank::plan_scales(sharded.exec(), sharded.mesh().tensor(), sharded.parameters(),
                          adapters[i], *loaded[i]);
    sharded.set_adapter(loaded[i].get());
    run_largest_passes(model.engine(), blocks, limits, context);
  }
  memory.pass = device->total().peak - before;
  return memory;
}

RankMemory sum_of(std::span<const RankMemory> ranks) {
  RankMemory sum = ranks.front();
  for (const RankMemory& rank : ranks.subspan(1)) {
    sum.weights += rank.weights;
    sum.pass += rank.pass;
    for (size_t g = 0; g < sum.block.size(); ++g) sum.block[g] += rank.block[g];
  }
  return sum;
}

}  // namespace

int64_t RankMemory::total(std::span<const int64_t> blocks) const {
  MEGA_CHECK_EQ(blocks.size(), block.size());
  int64_t bytes = weights + pass;
  for (size_t g = 0; g < block.size(); ++g) bytes += blocks[g] * block[g];
  return bytes;
}

void run_largest_passes(inference::InferenceEngine& engine, const inference::KvBlocks& blocks,
                        const Scheduler::Limits& limits, int64_t context) {
  const bool reads = engine.spec().is_encoder_decoder();
  // Whatever the blocks hold: no value matters.
  const std::vector<int32_t> ids(static_cast<size_t>(context));
  const inference::BlockTables tables(
      blocks.groups().size(),
      std::vector<int32_t>(static_cast<size_t>(kernels::kv_cache_blocks(context))));
  if (reads) {
    const int64_t text = context - engine.model().virtual_tokens();
    engine.read(blocks, std::span(ids).first(static_cast<size_t>(text)), tables);
  }
  // Some memory is by the longest run of a pass, some by sequence: for each number of them, the
  // first takes all that it can.
  for (int64_t sequences = 1; sequences <= limits.sequences; ++sequences) {
    std::vector<inference::SequenceRows> rows;
    int64_t left = limits.tokens;
    for (int64_t others = sequences - 1; others >= 0; --others) {
      const int64_t count = std::min(left - others, context);
      left -= count;
      const auto its = std::span(ids).first(static_cast<size_t>(count));
      rows.push_back({.ids = its,
                      .past = context - count,
                      .reach = context,
                      .blocks = &tables,
                      .memory = reads ? context : 0,
                      .num_logits = count});
      if (!reads) rows.back().targets = its;
    }
    engine.step(blocks, rows, [](std::span<const float>) {});
  }
}

std::vector<RankMemory> plan_memory(const models::ModelSpec& spec,
                                    const inference::InferenceModel::Options& options,
                                    const device::Target& target, const Scheduler::Limits& limits,
                                    int64_t context,
                                    std::span<const layers::AdapterRanks> adapters) {
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < options.layout.num_ranks(); ++rank)
    ranks.push_back(plan_rank(spec, options, rank, target, limits, context, adapters));
  return ranks;
}

BlockPlan plan_blocks(const models::ModelSpec& spec, std::span<const RankMemory> ranks,
                      const Scheduler::Limits& limits, int64_t context, int64_t bytes,
                      int64_t outside) {
  const std::vector<int64_t> one = blocks_of_one(spec, limits, context);
  const int64_t largest = *std::ranges::max_element(one);
  const auto counts = [&](int64_t blocks) {  // of the group that needs most
    std::vector<int64_t> all;
    for (const int64_t each : one) all.push_back(ceil_div(blocks * each, largest));
    return all;
  };
  const RankMemory sum = sum_of(ranks);
  const int64_t model_bytes = outside + sum.weights + sum.pass;
  const auto total = [&](std::span<const int64_t> blocks) { return outside + sum.total(blocks); };
  if (total(one) > bytes) {
    using report::human_bytes;
    throw UserError(
        "weights of {}, {} for a pass of {} tokens, {} for the program and {} for the keys and "
        "values of one text of {} tokens are {}, and {} may be taken; give more --memory, a "
        "shorter "
        "--context, a smaller --max-batch or --max-pass-tokens, or --dtype bf16",
        human_bytes(sum.weights), human_bytes(sum.pass), limits.tokens, human_bytes(outside),
        human_bytes(total(one) - model_bytes), context, human_bytes(total(one)),
        human_bytes(bytes));
  }
  int64_t fits = largest, beyond = limits.sequences * largest + 1;
  while (fits + 1 < beyond) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (total(counts(middle)) <= bytes ? fits : beyond) = middle;
  }
  const std::vector<int64_t> blocks = counts(fits);
  return {blocks, model_bytes, total(blocks) - model_bytes,
          static_cast<double>(fits) / static_cast<double>(largest)};
}

}  // namespace megalith::generate
