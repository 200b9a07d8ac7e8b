// SPDX-License-Identifier: Apache-2.0
// Reads text with a sharded model: probabilities of a text in one pass, or token by token with a
// cache of keys and values. The same layers and arithmetic as in training, under any layout of
// tensor and pipeline ranks, so that trainer, evaluator and generator agree to the bit.
//
// All ranks of the model make the same calls with the same ids; data ranks are models apart.
#pragma once

#include <span>
#include <vector>

#include "engine/sharded_model.h"
#include "inference/cached_rows.h"

namespace megalith::inference {

/// One sequence in blocks of its own, as large as it may become.
class KvCache {
 public:
  /// For `max_positions` positions, and `memory` tokens that an encoder reads.
  KvCache(engine::ShardedModel& model, int64_t max_positions, int64_t memory = 0);
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  /// Forgets positions from `length` on; in a plan, where there are no values, takes those up to
  /// there as read.
  void set_length(int64_t length) { length_ = length; }

 private:
  friend class InferenceEngine;
  KvBlocks blocks_;
  BlockTables tables_;
  int64_t capacity_;
  int64_t memory_;
  int64_t length_ = 0;
};

/// UserError, worded for a list of ids, if it is empty, has more than `limit` (of the context), or
/// has an id outside of [0, vocab + in_text); `in_text`: virtual tokens that a text may have.
void check_ids(const models::ModelSpec& spec, std::span<const int32_t> ids, int64_t limit,
               int64_t in_text = 0);
/// UserError unless the model has one stack, and logits of the next token; `what`: "perplexity".
void require_one_stack(const models::ModelSpec& spec, std::string_view what);
/// Of a model that cannot write: an encoder, one without logits.
void check_generates(const models::ModelSpec& spec);
/// Throws the UserError that InferenceEngine::score() would throw for these ids behind
/// `virtual_tokens` virtual tokens; `in_text`: as for check_ids().
void check_scorable(const models::ModelSpec& spec, std::span<const int32_t> ids,
                    int64_t virtual_tokens = 0, int64_t in_text = 0);
/// And that score_target() would.
void check_target(const models::ModelSpec& spec, std::span<const int32_t> ids,
                  std::span<const int32_t> target, int64_t virtual_tokens = 0, int64_t in_text = 0);

class InferenceEngine {
 public:
  /// `model` must outlive it; its weights are read as they are at each call.
  explicit InferenceEngine(engine::ShardedModel& model) : model_(model) {}

  engine::ShardedModel& model() { return model_; }
  const models::ModelSpec& spec() const { return model_.spec(); }
  /// Most tokens of a text, of an encoder-decoder of what its encoder reads: the model's context
  /// less the virtual tokens that stand before it (ShardedModel::virtual_tokens).
  int64_t context() const { return spec().context - model_.virtual_tokens(); }

  /// log p(ids[i + 1] | ids[0 .. i]) for every i, in one pass; 1 <= n <= context() ids. Virtual
  /// tokens among them are not scored, nor is the first other token: m others give m - 1 numbers.
  /// Collective; the same on every rank; empty on the trace kind, which has no values.
  std::vector<double> score(std::span<const int32_t> ids);
  /// Of an encoder-decoder that reads `ids`: log p(target[i] | target[0 .. i - 1], ids) for every
  /// i, in one pass. Collective, as score().
  std::vector<double> score_target(std::span<const int32_t> ids, std::span<const int32_t> target);
  /// An empty one; UserError but for a model of one stack.
  KvCache make_cache(int64_t max_positions);
  /// A text to go on with: extend() the cache by `ids`, and by new tokens from there.
  struct Beginning {
    KvCache cache;
    std::vector<int32_t> ids;
  };
  /// The prompt itself, or of an encoder-decoder, whose encoder reads the prompt here, the token
  /// before a decoder's first. At most `new_tokens` more go into the cache, and not more than the
  /// context holds. Collective.
  Beginning begin(std::span<const int32_t> prompt, int64_t new_tokens);
  /// Appends ids to the cached sequence, which an empty one begins behind the virtual tokens. Any
  /// number of ids; long runs go in chunks. On the ranks of the last stage: the logits that follow
  /// the last one, over the vocabulary without padding (zeros on the trace kind); nothing on
  /// others. Collective.
  std::vector<float> extend(KvCache& cache, std::span<const int32_t> ids);

  /// What one pass gives.
  struct StepResult {
    std::vector<float> logits;     // [tokens that want them, vocabulary], on the last stage
    std::vector<double> logprobs;  // of all targets in order, on every rank
  };
  /// One pass over the next tokens of several sequences. No result depends on the others: bits are
  /// those of a sequence alone, read in any pieces. Ids are not checked (check_ids). On the trace
  /// kind logits are zeros, and logprobs none. Collective.
  StepResult step(const KvBlocks& blocks, std::span<const SequenceRows> rows);
  /// The same with the logits one by one, so that nobody keeps those of many tokens: on the ranks
  /// of the last stage `see` is called with those that follow each token that wants them, in order.
  /// It throws on all of these ranks or none. Returns the logprobs.
  using SeeLogits = FunctionRef<void(std::span<const float> logits)>;
  std::vector<double> step(const KvBlocks& blocks, std::span<const SequenceRows> rows,
                           SeeLogits see);
  /// The encoder of an encoder-decoder reads `ids`, behind the virtual tokens; what cross attention
  /// needs of them goes to the last group's blocks of `tables`. `adapter`: null: that of the model.
  /// Collective.
  void read(const KvBlocks& blocks, std::span<const int32_t> ids, const BlockTables& tables,
            const layers::Adapter* adapter = nullptr);
  /// What the last stage made of such logits, told to all stages. Collective.
  std::vector<double> from_last_stage(std::span<const double> values) {
    return model_.from_last_stage(values, "inference.result");
  }

 private:
  std::vector<int32_t> virtual_ids(const layers::Adapter* adapter = nullptr) const {
    return layers::virtual_ids(spec().vocab, model_.virtual_tokens(adapter));
  }
  /// The virtual tokens, and the text behind them.
  std::vector<int32_t> behind_virtual(std::span<const int32_t> ids,
                                      const layers::Adapter* adapter = nullptr) const {
    std::vector<int32_t> all = virtual_ids(adapter);
    all.insert(all.end(), ids.begin(), ids.end());
    return all;
  }
  std::vector<double> logprobs(const layers::Batch& batch);
  void see_logits(layers::Context& context, std::span<const SequenceRows> rows, ConstView x_TH,
                  SeeLogits see);
  std::vector<double> losses_of(layers::Context& context, std::span<const SequenceRows> rows,
                                ConstView x_TH);
  engine::ShardedModel& model_;
};

}  // namespace megalith::inference
