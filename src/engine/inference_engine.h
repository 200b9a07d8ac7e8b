// SPDX-License-Identifier: Apache-2.0
// Reads text with a sharded model: probabilities of a text in one pass, or token by token with a
// cache of keys and values. The same layers and arithmetic as in training, under any layout of
// tensor and pipeline ranks, so that trainer, evaluator and generator agree to the bit.
//
// All ranks of the model make the same calls with the same ids; data ranks are models apart.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/sharded_model.h"
#include "engine/text_batch.h"

namespace megalith::engine {

/// What the layers of this rank keep of one sequence: its keys and values, and in an
/// encoder-decoder those that cross attention has of the text that the encoder read. Memory: class
/// activations.
class KvCache {
 public:
  KvCache(ShardedModel& model, int64_t max_positions);
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  /// Forgets positions from `length` on; in a plan, where there are no values, takes those up to
  /// there as read.
  void set_length(int64_t length) { length_ = length; }

 private:
  friend class InferenceEngine;
  std::vector<device::Tensor> storage_;
  std::vector<std::vector<layers::CachedLayer>> layers_;  // by chunk
  std::unique_ptr<TextBatch> read_;                       // by the encoder
  std::vector<std::vector<View>> kept_;                   // by chunk
  std::vector<int32_t> blocks_;
  device::Tensor block_table_;
  int64_t capacity_;
  int64_t length_ = 0;
};

/// UserError in words about a list of ids: none, more than `limit`, one outside the vocabulary.
void check_ids(const models::ModelSpec& spec, std::span<const int32_t> ids, int64_t limit);
/// UserError unless the model has one stack, and logits of the next token; `what`: "perplexity".
void require_one_stack(const models::ModelSpec& spec, std::string_view what);
/// Throws the UserError that InferenceEngine::score() would throw for these ids.
void check_scorable(const models::ModelSpec& spec, std::span<const int32_t> ids);
/// And that score_target() would.
void check_target(const models::ModelSpec& spec, std::span<const int32_t> ids,
                  std::span<const int32_t> target);

class InferenceEngine {
 public:
  /// `model` must outlive it; its weights are read as they are at each call.
  explicit InferenceEngine(ShardedModel& model) : model_(model) {}

  ShardedModel& model() { return model_; }
  const models::ModelSpec& spec() const { return model_.spec(); }

  /// log p(ids[i + 1] | ids[0 .. i]) for every i, in one pass; 1 <= n <= context ids. Collective;
  /// the same on every rank; empty on the trace kind, which has no values.
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
  /// Appends ids to the cached sequence. Any number of ids; long runs go in chunks. On the ranks of
  /// the last stage: the logits that follow the last one, over the vocabulary without padding
  /// (zeros on the trace kind); nothing on others. Collective.
  std::vector<float> extend(KvCache& cache, std::span<const int32_t> ids);
  /// What the last stage made of such logits, told to all stages. Collective.
  std::vector<double> from_last_stage(std::span<const double> values) {
    return model_.from_last_stage(values, "inference.result");
  }

 private:
  std::vector<double> logprobs(const layers::Batch& batch);
  void read(KvCache& cache, std::span<const int32_t> ids);
  void extend_chunk(KvCache& cache, std::span<const int32_t> ids, View logits_RV);
  ShardedModel& model_;
};

}  // namespace megalith::engine
