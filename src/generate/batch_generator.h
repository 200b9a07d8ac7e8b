// SPDX-License-Identifier: Apache-2.0
// Writes many texts at once (continuous batching): requests come and go between passes of the
// model. What a request gets depends on nothing but itself: alone, in any company, read again after
// it had to give up its blocks, behind a beginning that another has read, its ids, text and
// log-probabilities are the same to the bit (docs/design/0016-batch-invariance.md).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "generate/draft.h"
#include "generate/writing.h"
#include "inference/inference_engine.h"

namespace megalith::generate {

class BatchGenerator {
 public:
  struct Options {
    Scheduler::Limits limits;
    std::vector<int64_t> blocks;  // of each group (inference/kv_blocks.h)
    bool keeps_prefixes = true;
    inference::InferenceEngine* draft = nullptr;  // of a smaller model with the same vocabulary
    std::vector<int64_t> draft_blocks = {};       // of each of its groups
  };
  /// `engine`, `draft` and `tokenizer` must outlive it; without a tokenizer there are no texts.
  /// Memory: all that it keeps is taken here.
  BatchGenerator(inference::InferenceEngine& engine, const text::Tokenizer* tokenizer,
                 const Options& options);
  ~BatchGenerator();

  /// All ranks of the model make the same calls in the same order.
  ///
  /// UserError: a request that makes no sense, or is beyond the context or the blocks. Its number,
  /// or nothing where the queue is full.
  std::optional<uint64_t> submit(Request request);
  /// Ends a request; no call of its functions comes after. Nothing if there is none of the number.
  void cancel(uint64_t number);
  /// One pass of the model; false where there was nothing to do. Collective.
  bool step();

  const Scheduler& scheduler() const { return scheduler_; }
  const BlockStore& blocks() const { return store_; }

 private:
  void guess();
  void pass(std::vector<Scheduler::Part> parts);
  Writing& writing_of(const Scheduler::Part& part);
  std::unique_ptr<Writing> leave(uint64_t number);

  inference::InferenceEngine& engine_;
  const text::Tokenizer* tokenizer_;
  size_t drawable_;  // tokens that may be chosen: those with a text
  inference::KvBlocks kv_;
  BlockStore store_;
  Scheduler scheduler_;
  int64_t most_sequences_;
  std::optional<Draft> draft_;
  std::map<uint64_t, std::unique_ptr<Writing>> writing_;
  uint64_t last_ = 0;
};

}  // namespace megalith::generate
