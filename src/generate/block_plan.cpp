// SPDX-License-Identifier: Apache-2.0
#include "generate/block_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "comm/backends.h"

namespace megalith::generate {
namespace {

/// Blocks of each group that one sequence takes at most.
std::vector<int64_t> blocks_of_one(const models::ModelSpec& spec, const Scheduler::Limits& limits,
                                   int64_t context) {
  return BlockStore::needed(engine::kv_groups(spec), {.positions = context, .memory = context},
                            limits.tokens);
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.3f} GiB", static_cast<double>(bytes) / (1 << 30));
}

struct Sum {
  std::span<const RankMemory> ranks;
  int64_t operator()(std::span<const int64_t> blocks) const {
    int64_t bytes = 0;
    for (const RankMemory& rank : ranks) bytes += rank.total(blocks);
    return bytes;
  }
};

[[noreturn]] void refuse(const Sum& sum, std::span<const int64_t> one, int64_t context,
                         const Scheduler::Limits& limits, int64_t bytes) {
  int64_t weights = 0, pass = 0;
  for (const RankMemory& rank : sum.ranks) {
    weights += rank.weights;
    pass += rank.pass;
  }
  const int64_t needed = sum(one);
  throw UserError(
      "weights of {}, {} for a pass of {} tokens and {} for the keys and values of one text of {} "
      "tokens are {}, and {} may be taken; lower the context or the tokens of a pass, or store in "
      "bf16",
      gib(weights), gib(pass), limits.tokens, gib(needed - weights - pass), context, gib(needed),
      gib(bytes));
}

}  // namespace

int64_t RankMemory::total(std::span<const int64_t> blocks) const {
  MEGA_CHECK_EQ(blocks.size(), block.size());
  int64_t bytes = weights + pass;
  for (size_t g = 0; g < block.size(); ++g) bytes += blocks[g] * block[g];
  return bytes;
}

void run_largest_passes(engine::InferenceEngine& engine, const engine::KvBlocks& blocks,
                        const Scheduler::Limits& limits, int64_t context) {
  const bool reads = engine.spec().is_encoder_decoder();
  // Whatever the blocks hold: no value matters.
  const std::vector<int32_t> ids(static_cast<size_t>(context));
  const engine::BlockTables tables(
      blocks.groups().size(),
      std::vector<int32_t>(static_cast<size_t>(kernels::kv_cache_blocks(context))));
  if (reads) engine.read(blocks, ids, tables);
  // Some memory is by the longest run of a pass, some by sequence: for each number of them, the
  // first takes all that it can.
  for (int64_t sequences = 1; sequences <= limits.sequences; ++sequences) {
    std::vector<engine::SequenceRows> rows;
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

RankMemory plan_memory(const models::ModelSpec& spec,
                       const engine::InferenceModel::Options& options, int rank,
                       const device::Target& target, const Scheduler::Limits& limits,
                       int64_t context) {
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, rank, options.layout.num_ranks());
  engine::InferenceModel model(spec, *device, *world, options);
  RankMemory memory{.weights = device->total().in_use};
  const std::vector<int64_t> one = blocks_of_one(spec, limits, context);
  const engine::KvBlocks blocks(model.engine().model(), one);
  for (size_t g = 0; g < one.size(); ++g)
    memory.block.push_back(exact_div(blocks.bytes(g), one[g]));
  const int64_t before = device->total().in_use;
  run_largest_passes(model.engine(), blocks, limits, context);
  memory.pass = device->total().peak - before;
  return memory;
}

std::vector<int64_t> plan_blocks(const models::ModelSpec& spec, std::span<const RankMemory> ranks,
                                 const Scheduler::Limits& limits, int64_t context, int64_t bytes) {
  const std::vector<int64_t> one = blocks_of_one(spec, limits, context);
  const int64_t largest = *std::ranges::max_element(one);
  const auto counts = [&](int64_t blocks) {  // of the group that needs most
    std::vector<int64_t> all;
    for (const int64_t each : one) all.push_back(ceil_div(blocks * each, largest));
    return all;
  };
  const Sum sum{ranks};
  if (sum(one) > bytes) refuse(sum, one, context, limits, bytes);
  int64_t fits = largest, beyond = limits.sequences * largest + 1;
  while (fits + 1 < beyond) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (sum(counts(middle)) <= bytes ? fits : beyond) = middle;
  }
  return counts(fits);
}

}  // namespace megalith::generate
