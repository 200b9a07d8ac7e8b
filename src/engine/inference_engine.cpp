// SPDX-License-Identifier: Apache-2.0
#include "engine/inference_engine.h"

#include <algorithm>
#include <numeric>

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
    const models::Stage& stage = model_chunk->stage();
    for (int64_t i = std::max(stage.begin, model.spec().encoder_layers); i < stage.end; ++i) {
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

namespace {

/// `what`: "scoring".
void check_predicts(const models::ModelSpec& spec, std::string_view what) {
  layers::require_logits(spec.head, what);
  if (!spec.is_causal()) {
    throw UserError("{} needs a model that predicts the next token, and an encoder does not{}",
                    what, what == "scoring" ? "; score masked ones: --masked" : "");
  }
}

}  // namespace

void require_one_stack(const models::ModelSpec& spec, std::string_view what) {
  check_predicts(spec, what);
  if (!spec.is_encoder_decoder()) return;
  throw UserError(
      "{} is for models of one stack, and an encoder-decoder predicts a target from a text", what);
}

void check_scorable(const models::ModelSpec& spec, std::span<const int32_t> ids) {
  check_predicts(spec, "scoring");
  if (spec.is_encoder_decoder()) {
    throw UserError(
        "an encoder-decoder predicts a target from a text: give both, \"target\" beside "
        "\"text\" in lines to score");
  }
  check_ids(spec, ids, spec.context);
}

void check_target(const models::ModelSpec& spec, std::span<const int32_t> ids,
                  std::span<const int32_t> target) {
  check_predicts(spec, "scoring");
  if (!spec.is_encoder_decoder())
    throw UserError(
        "a target beside the text is for encoder-decoders, and this model has one stack");
  check_ids(spec, ids, spec.context);
  if (!target.empty()) check_ids(spec, target, spec.context);
}

/// Of the batch's targets.
std::vector<double> InferenceEngine::logprobs(const layers::Batch& batch) {
  device::Device& device = model_.device();
  layers::Context context = model_.inference_context();
  const device::Tensor x =
      context.workspace(context.activation, Shape{models::StreamRows(batch).all(), spec().hidden});
  model_.through_stages(x, "inference.activation", [&](const models::Decoder& model_chunk, size_t) {
    model_chunk.hidden(context, batch, x);
  });
  std::vector<double> logprobs;
  if (model_.mesh().is_last_stage()) {
    const device::Tensor loss_T = context.workspace(DType::f32, Shape{batch.num_tokens});
    model_.head().score(context, batch, x, loss_T);
    if (!device.is_trace()) {
      std::vector<float> loss(static_cast<size_t>(batch.num_tokens));
      device.wait(device.copy_to_host(loss.data(), loss_T.view));
      for (const float x_loss : loss) logprobs.push_back(-static_cast<double>(x_loss));
    }
  }
  return from_last_stage(logprobs);
}

std::vector<double> InferenceEngine::score(std::span<const int32_t> ids) {
  check_scorable(spec(), ids);
  if (ids.size() == 1) return {};
  const TextBatch text(model_.device(), ids.first(ids.size() - 1), ids.subspan(1), 0,
                       std::ssize(ids));
  return logprobs(text.batch());
}

std::vector<double> InferenceEngine::score_target(std::span<const int32_t> ids,
                                                  std::span<const int32_t> target) {
  check_target(spec(), ids, target);
  if (target.empty()) return {};
  std::vector<int32_t> before = {narrow<int32_t>(spec().decoder_start)};
  before.insert(before.end(), target.begin(), target.end() - 1);
  const TextBatch read(model_.device(), ids, {}, 0, std::ssize(ids));
  const TextBatch written(model_.device(), before, target, 0, std::ssize(target));
  layers::Batch batch = written.batch();
  batch.encoder = &read.batch();
  return logprobs(batch);
}

/// Through the encoder, whole: its tokens see each other both ways.
void InferenceEngine::read(KvCache& cache, std::span<const int32_t> ids) {
  cache.read_ = std::make_unique<TextBatch>(model_.device(), ids, std::span<const int32_t>(), 0,
                                            std::ssize(ids));
  const layers::Batch& batch = cache.read_->batch();
  layers::Context context = model_.inference_context();
  for (const auto& model_chunk : model_.chunks()) {
    std::vector<View>& kept = cache.kept_.emplace_back();
    for (const int64_t columns : model_chunk->kept_columns(context)) {
      cache.storage_.push_back(context.saved(context.activation, Shape{batch.num_tokens, columns}));
      kept.push_back(cache.storage_.back());
    }
  }
  const device::Tensor x =
      context.workspace(context.activation, Shape{batch.num_tokens, spec().hidden});
  model_.through_stages(x, "inference.activation",
                        [&](const models::Decoder& model_chunk, size_t chunk) {
                          model_chunk.encode(context, batch, x, cache.kept_[chunk]);
                        });
}

KvCache InferenceEngine::make_cache(int64_t max_positions) {
  require_one_stack(spec(), "generating from an empty cache");
  return KvCache(model_, std::min(max_positions, spec().context));
}

InferenceEngine::Beginning InferenceEngine::begin(std::span<const int32_t> prompt,
                                                  int64_t new_tokens) {
  check_predicts(spec(), "generating text");
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  const bool reads = spec().is_encoder_decoder();
  if (reads) {
    check_ids(spec(), prompt, spec().context);
    ids = {narrow<int32_t>(spec().decoder_start)};
  }
  const int64_t context = spec().context;
  Beginning beginning{
      KvCache(model_, std::min(std::ssize(ids) + std::min(new_tokens, context), context)),
      std::move(ids)};
  if (reads) read(beginning.cache, prompt);
  return beginning;
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
                          layers::Memory memory;
                          if (cache.read_ != nullptr) {
                            memory = {&cache.read_->batch(), {}, {}, cache.kept_[chunk]};
                            batch.memory = &memory;
                          }
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
