// SPDX-License-Identifier: Apache-2.0
#include "serve/capacity.h"

#include <algorithm>

#include "account/memory_fit.h"
#include "account/plan.h"
#include "comm/backends.h"
#include "generate/block_store.h"

namespace megalith::serve {
namespace {

using generate::BlockStore;

/// The largest pass of `options`, on the trace kind.
void trace_pass(engine::InferenceModel& model, const std::vector<int64_t>& blocks,
                const CapacityOptions& options) {
  const engine::KvBlocks kv(model.engine().model(), blocks);
  const bool reads = model.spec().is_encoder_decoder();
  engine::BlockTables tables;
  for (size_t g = 0; g < kv.groups().size(); ++g) {
    tables.emplace_back(
        static_cast<size_t>((options.context + BlockStore::kBlock - 1) / BlockStore::kBlock));
  }
  if (reads) {
    const std::vector<int32_t> text(static_cast<size_t>(options.context));
    model.engine().read(kv, text, tables);
  }
  const int64_t others = options.sequences - 1;
  const int64_t longest = std::min(options.tokens - others, options.context);
  const std::vector<int32_t> ids(static_cast<size_t>(longest));
  std::vector<engine::SequenceRows> rows;
  for (int64_t i = 0; i < options.sequences; ++i) {
    const int64_t count = i == 0 ? longest : 1;
    rows.push_back({.ids = std::span(ids).first(static_cast<size_t>(count)),
                    .past = options.context - count,
                    .reach = options.context,
                    .blocks = &tables,
                    .memory = reads ? options.context : 0});
  }
  model.engine().step(kv, rows);
}

/// Bytes of all ranks together.
int64_t traced_bytes(const models::ModelSpec& spec, const engine::InferenceModel::Options& model,
                     const device::Target& target, const std::vector<int64_t>& blocks,
                     const CapacityOptions& options) {
  int64_t bytes = 0;
  const int ranks = model.layout.num_ranks();
  for (int rank = 0; rank < ranks; ++rank) {
    bytes += account::trace(target, [&](device::Device& traced) {
               const auto world = comm::make_traced_communicator(traced, rank, ranks);
               engine::InferenceModel made(spec, traced, *world, model);
               trace_pass(made, blocks, options);
             }).memory.total;
  }
  return bytes;
}

}  // namespace

Capacity plan_capacity(const models::ModelSpec& spec, const engine::InferenceModel::Options& model,
                       const device::Target& target, const CapacityOptions& options) {
  const int64_t memory = spec.is_encoder_decoder() ? options.context : 0;
  const std::vector<int64_t> one = BlockStore::needed(
      engine::kv_groups(spec), {.positions = options.context, .memory = memory}, options.tokens);
  std::vector<int64_t> two = one;
  for (int64_t& count : two) count *= 2;
  const int64_t with_one = traced_bytes(spec, model, target, one, options);
  const int64_t of_one = traced_bytes(spec, model, target, two, options) - with_one;
  Capacity capacity;
  capacity.model_bytes = with_one - of_one + account::kOutsideBytes;
  const int64_t left = options.memory - capacity.model_bytes;
  if (left < of_one) {
    throw UserError(
        "serving takes {} for weights and passes and {} for one text of {} tokens, but has {}; "
        "give more --memory, a shorter --context, a smaller --max-batch or --dtype bf16",
        account::bytes_text(capacity.model_bytes), account::bytes_text(of_one), options.context,
        account::bytes_text(options.memory));
  }
  capacity.sequences = std::min(static_cast<double>(left) / static_cast<double>(of_one),
                                static_cast<double>(options.sequences));
  for (const int64_t count : one) {
    capacity.blocks.push_back(
        static_cast<int64_t>(capacity.sequences * static_cast<double>(count)));
  }
  capacity.cache_bytes = static_cast<int64_t>(capacity.sequences * static_cast<double>(of_one));
  return capacity;
}

}  // namespace megalith::serve
