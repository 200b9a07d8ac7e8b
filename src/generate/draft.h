// SPDX-License-Identifier: Apache-2.0
// A smaller model that guesses what a larger one will write (speculative decoding: Leviathan et al.
// 2023). It draws as the larger one does, by the same numbers, so that both often choose alike.
#pragma once

#include <map>

#include "generate/block_store.h"
#include "generate/sampling.h"
#include "inference/inference_engine.h"

namespace megalith::generate {

class Draft {
 public:
  /// Tokens of one of its passes.
  static constexpr int64_t kPassTokens = 512;

  /// `engine`, of a model of one stack (else UserError), must outlive it. `blocks`: of each of its
  /// groups; a text that finds no room there has no guesses. `drawable`: tokens that may be
  /// guessed.
  Draft(inference::InferenceEngine& engine, const std::vector<int64_t>& blocks, size_t drawable);

  /// Blocks of each group that a text of so many positions takes at most.
  static std::vector<int64_t> needed(const models::ModelSpec& spec, int64_t positions);

  /// A text to guess from. There are no guesses if it is longer than the draft's context.
  struct Asked {
    uint64_t number = 0;  // the text's, for good
    std::span<const int32_t> ids;
    size_t prompt = 0;  // of them
    int64_t count = 0;  // guesses that are wanted
    int64_t reach = 0;  // positions that it may come to have
    const SamplingOptions* sampling = nullptr;
    std::vector<int32_t>* guesses = nullptr;  // overwritten
  };
  /// Reads what it has not read yet, and guesses. Collective.
  void guess(std::span<const Asked> asked);
  void forget(uint64_t number);

 private:
  struct Reading {
    std::vector<int32_t> ids;  // of the text, then guesses
    int64_t past = 0;          // of them, that were read
    BlockStore::Held held;
  };
  struct Going {
    const Asked* asked = nullptr;
    Reading* reading = nullptr;
  };
  void go_back(const Asked& asked, Reading& reading);
  bool pass(std::vector<Going>& going);

  inference::InferenceEngine& engine_;
  size_t drawable_;
  inference::KvBlocks kv_;
  BlockStore store_;
  std::map<uint64_t, Reading> readings_;
};

}  // namespace megalith::generate
