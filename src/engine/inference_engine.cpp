// SPDX-License-Identifier: Apache-2.0
#include "engine/inference_engine.h"

#include <algorithm>
#include <numeric>

#include "engine/text_batch.h"
#include "kernels/attention/kv_cache.h"

namespace megalith::engine {
namespace {

/// Prompts are read in chunks of this many tokens: bounds the memory, costs no bit (the cache's
/// arithmetic does not depend on it).
constexpr int64_t kPrefillChunk = 512;

/// Ranks that share a head have it each.
int64_t kv_heads_here(int64_t kv_heads, int64_t ranks) {
  return ranks > kv_heads ? 1 : exact_div(kv_heads, ranks);
}

}  // namespace

KvCache::KvCache(ShardedModel& model, int64_t max_positions) : capacity_(max_positions) {
  device::Device& device = model.device();
  const int64_t num_blocks = kernels::kv_cache_blocks(max_positions);
  const int ranks = model.mesh().layout().tensor;
  for (const auto& model_chunk : model.chunks()) {
    std::vector<layers::CachedLayer>& layers = layers_.emplace_back();
    for (int64_t i = model_chunk->stage().begin; i < model_chunk->stage().end; ++i) {
      const layers::AttentionSpec& attention = model.spec().layer(i).attention;
      const kernels::KvCacheShape shape{model.settings().activations,
                                        kv_heads_here(attention.kv_heads, ranks),
                                        attention.head_dim, num_blocks};
      storage_.push_back(device.arena(device::MemoryClass::activations)
                             .tensor(shape.dtype, Shape{kernels::kv_cache_elements(shape)}));
      layers.push_back({shape, storage_.back()});
    }
  }
  blocks_.resize(static_cast<size_t>(num_blocks));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  block_table_ =
      device.arena(device::MemoryClass::workspace).tensor(DType::i32, Shape{1, num_blocks});
  device.wait(device.copy_to_device(block_table_, blocks_.data()));
}

void check_ids(const models::ModelSpec& spec, std::span<const int32_t> ids, int64_t limit) {
  if (ids.empty()) throw UserError("there are no tokens to read; give at least one");
  if (std::ssize(ids) > limit)
    throw UserError("{} tokens are more than the model's context of {}", ids.size(), spec.context);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= spec.vocab) {
      throw UserError("token id {} at position {} is outside the vocabulary of {}", ids[i], i,
                      spec.vocab);
    }
  }
}

void check_scorable(const models::ModelSpec& spec, std::span<const int32_t> ids) {
  layers::require_logits(spec.head, "scoring");
  if (!spec.is_causal())
    throw UserError("an encoder does not predict the next token; score masked ones: --masked");
  check_ids(spec, ids, spec.context);
}

std::vector<double> InferenceEngine::score(std::span<const int32_t> ids) {
  check_scorable(spec(), ids);
  const auto tokens = std::ssize(ids) - 1;
  if (tokens == 0) return {};
  device::Device& device = model_.device();
  const TextBatch text(device, ids.first(static_cast<size_t>(tokens)), ids.subspan(1), 0,
                       std::ssize(ids));
  layers::Context context = model_.inference_context();
  const device::Tensor x = context.workspace(context.activation, Shape{tokens, spec().hidden});
  model_.through_stages(x, "inference.activation", [&](const models::Decoder& model_chunk, size_t) {
    model_chunk.hidden(context, text.batch(), x);
  });
  std::vector<double> logprobs;
  if (model_.mesh().is_last_stage()) {
    const device::Tensor loss_T = context.workspace(DType::f32, Shape{tokens});
    model_.head().score(context, text.batch(), x, loss_T);
    if (!device.is_trace()) {
      std::vector<float> loss(static_cast<size_t>(tokens));
      device.wait(device.copy_to_host(loss.data(), loss_T.view));
      for (const float x_loss : loss) logprobs.push_back(-static_cast<double>(x_loss));
    }
  }
  return from_last_stage(logprobs);
}

KvCache InferenceEngine::make_cache(int64_t max_positions) {
  layers::require_logits(spec().head, "generating text");
  if (!spec().is_causal()) throw UserError("an encoder does not generate text: it is not causal");
  return KvCache(model_, std::min(max_positions, spec().context));
}

/// `logits_RV`: of the last token; absent where they are not wanted.
void InferenceEngine::extend_chunk(KvCache& cache, std::span<const int32_t> ids, View logits_RV) {
  const auto tokens = std::ssize(ids);
  TextBatch text(model_.device(), ids, {}, cache.length(), cache.capacity());
  const kernels::CachedSequences sequences = text.cached(cache.block_table_.view);
  layers::Context context = model_.inference_context();
  const device::Tensor x = context.workspace(context.activation, Shape{tokens, spec().hidden});
  model_.through_stages(x, "inference.activation",
                        [&](const models::Decoder& model_chunk, size_t chunk) {
                          const layers::KvCacheBinding binding{cache.layers_[chunk], sequences};
                          layers::Batch batch = text.batch();
                          batch.cache = &binding;
                          model_chunk.hidden(context, batch, x);
                        });
  cache.length_ += tokens;
  if (!logits_RV.absent()) model_.head().logits(context, x.view.rows(tokens - 1, 1), logits_RV);
}

std::vector<float> InferenceEngine::extend(KvCache& cache, std::span<const int32_t> ids) {
  check_ids(spec(), ids, cache.capacity() - cache.length());
  device::Tensor logits;
  if (model_.mesh().is_last_stage())
    logits = model_.exec().workspace.tensor(
        DType::f32, Shape{1, spec().padded_vocab(model_.settings().split.tensor_shards)});
  while (!ids.empty()) {
    const auto tokens = static_cast<size_t>(std::min(std::ssize(ids), kPrefillChunk));
    extend_chunk(cache, ids.first(tokens), tokens == ids.size() ? logits.view : View{});
    ids = ids.subspan(tokens);
  }
  if (logits.view.absent()) return {};
  device::Device& device = model_.device();
  std::vector<float> host(static_cast<size_t>(spec().vocab));
  if (device.is_trace()) return host;
  device.wait(device.copy_to_host(host.data(), logits.view.columns(0, spec().vocab)));
  return host;
}

}  // namespace megalith::engine
