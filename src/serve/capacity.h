// SPDX-License-Identifier: Apache-2.0
// How many blocks of keys and values a server has: what memory leaves beside weights and the
// largest pass, which a traced run counts to the byte.
#pragma once

#include <string>
#include <vector>

#include "engine/inference_model.h"

namespace megalith::serve {

struct CapacityOptions {
  int64_t sequences = 16;  // at once
  int64_t tokens = 512;    // of a pass
  int64_t context = 0;     // positions of a sequence
  int64_t memory = 0;      // bytes for everything
};

struct Capacity {
  std::vector<int64_t> blocks;  // of each group
  int64_t model_bytes = 0;      // weights, the largest pass, the program
  int64_t cache_bytes = 0;      // blocks
  double sequences = 0;         // of the whole context, that have room at once
};

/// Of a model on the ranks of this process, each on `target`. No more than all sequences of the
/// whole context need. UserError with the numbers when not even one has room.
Capacity plan_capacity(const models::ModelSpec& spec, const engine::InferenceModel::Options& model,
                       const device::Target& target, const CapacityOptions& options);

}  // namespace megalith::serve
