// SPDX-License-Identifier: Apache-2.0
// Passes of a given shape over texts that nobody reads: what a pass takes, on any kind of device,
// does not depend on the tokens.
#pragma once

#include <vector>

#include "inference/inference_model.h"

namespace megalith::inference {

/// `count` next tokens of each of `sequences` texts of which `past` tokens have been read.
struct ShapedRows {
  int64_t sequences = 1;
  int64_t count = 1, past = 0;
  bool chooses = true;  // logits that follow the last are wanted
};

class ShapedPasses {
 public:
  /// Blocks for `sequences` texts of up to `context` tokens, each text's its own, so that a device
  /// that computes reads as much memory as of real ones. `engine` must outlive it.
  ShapedPasses(InferenceEngine& engine, int64_t sequences, int64_t context);

  /// One pass: at most the sequences and tokens that there are blocks for. `see` is given logits as
  /// InferenceEngine::step(). Collective.
  void run(std::span<const ShapedRows> rows, InferenceEngine::SeeLogits see);

 private:
  InferenceEngine& engine_;
  int64_t context_;
  KvBlocks blocks_;
  std::vector<BlockTables> tables_;  // by sequence
  std::vector<int32_t> ids_;
};

}  // namespace megalith::inference
