// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of continuations, many documents in one pass of the model. What the questions
// of one document begin with alike is read once, and what others have read before (the same
// examples in front) is not read again. An answer has the bits of InferenceEngine::score() of the
// whole sequence, whatever is read beside it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "evaluate/pair_encoder.h"
#include "generate/block_store.h"
#include "inference/inference_engine.h"

namespace megalith::evaluate {

struct ScoredAnswer {
  double logprob = 0;      // of the continuation, the sum over its tokens
  bool is_greedy = false;  // each of them is the most likely (the lowest of equals); if asked for
};

class ContinuationScorer {
 public:
  /// For sequences of at most `longest` ids. `wants_greedy`: whether is_greedy is wanted, which
  /// takes the logits of every scored token. UserError unless the model has one stack. The engine
  /// must outlive it.
  ContinuationScorer(inference::InferenceEngine& engine, int64_t longest, bool wants_greedy);

  /// By document, with those done so far. Collective over the ranks of the model, which call alike
  /// and get the same.
  using OnProgress = std::function<void(int64_t documents)>;
  std::vector<std::vector<ScoredAnswer>> score(std::span<const std::vector<ScoredIds>> documents,
                                               const OnProgress& on_progress = {});

 private:
  /// A sequence on its way through the model.
  struct Line {
    std::span<const int32_t> ids;  // that are read: without the last, of which the loss is
    int64_t first_scored = 0;      // ids from here on say what follows; past the end: none do
    int32_t last = 0;              // what follows the last of ids
    int64_t reach = 0;
    uint64_t salt = 0;  // BlockStore
    int64_t past = 0;
    generate::BlockStore::Held held = {};
    ScoredAnswer answer = {};
  };
  std::vector<std::vector<ScoredAnswer>> score_read(
      std::span<const std::vector<ScoredIds>> documents, const OnProgress& on_progress);
  /// A document, or one question of it.
  struct Group {
    size_t document = 0, first = 0;  // of its questions
    std::span<const ScoredIds> asked;
    int64_t common = 0;  // ids that all begin with and that score nothing
  };
  Group group_of(std::span<const ScoredIds> asked) const;
  int64_t blocks_of(const Group& group) const;
  std::vector<Group> next_batch(std::span<const Group> groups) const;
  void read_batch(std::span<const Group> batch, std::vector<std::vector<ScoredAnswer>>& answers);
  void read(std::span<Line* const> lines);
  void pass(std::span<Line* const> lines);

  inference::InferenceEngine& engine_;
  bool wants_greedy_;
  bool by_length_;  // what is read depends on how long the whole will be
  int64_t blocks_;
  inference::KvBlocks kv_;
  generate::BlockStore store_;
};

}  // namespace megalith::evaluate
