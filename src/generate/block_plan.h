// SPDX-License-Identifier: Apache-2.0
// How many blocks of keys and values there is memory for. What a batch generator takes beside them
// is found by running its largest passes on the trace kind, so a start fits to the byte, or is
// refused with the numbers.
#pragma once

#include "generate/scheduler.h"
#include "inference/inference_model.h"
#include "layers/adapter.h"

namespace megalith::generate {

/// What one rank takes, in bytes.
struct RankMemory {
  int64_t weights = 0;
  int64_t pass = 0;                 // at most, while a pass runs
  std::vector<int64_t> block = {};  // of each group (inference/kv_blocks.h)
  /// With so many blocks of each group.
  int64_t total(std::span<const int64_t> blocks) const;
};

/// The passes that take most memory, of each number of sequences, of all that a batch generator
/// with these limits makes of sequences up to `context` long; and what an encoder takes to read as
/// many tokens. Collective.
void run_largest_passes(inference::InferenceEngine& engine, const inference::KvBlocks& blocks,
                        const Scheduler::Limits& limits, int64_t context);

/// Of each rank of the options' layout, on devices of `target`. Local: nothing is allocated. A
/// draft model beside it has weights and blocks of its own, and its passes come between the
/// model's. `adapters`: that may be loaded at once, and used in a pass.
std::vector<RankMemory> plan_memory(const models::ModelSpec& spec,
                                    const inference::InferenceModel::Options& options,
                                    const device::Target& target, const Scheduler::Limits& limits,
                                    int64_t context,
                                    std::span<const layers::AdapterRanks> adapters = {});

/// Blocks, and the bytes of all ranks together.
struct BlockPlan {
  std::vector<int64_t> blocks;  // of each group
  int64_t model_bytes = 0;      // weights, the largest pass, the program
  int64_t block_bytes = 0;
  double sequences = 0;  // of the whole context, that have room at once
};
/// Blocks for as many tokens as fit into `bytes`, which `ranks` and the program, that takes
/// `outside`, share; each group's in proportion to what sequences of `context` tokens take; no more
/// than all that run at once could fill. UserError with the numbers when there is no room for one.
BlockPlan plan_blocks(const models::ModelSpec& spec, std::span<const RankMemory> ranks,
                      const Scheduler::Limits& limits, int64_t context, int64_t bytes,
                      int64_t outside = 0);

}  // namespace megalith::generate
