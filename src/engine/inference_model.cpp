// SPDX-License-Identifier: Apache-2.0
#include "engine/inference_model.h"

#include <algorithm>
#include <numeric>

#include "comm/backends.h"

namespace megalith::engine {
namespace {

/// Prompts are read in chunks of this many tokens: bounds the memory, costs no bit (the cache's
/// arithmetic does not depend on it).
constexpr int64_t kPrefillChunk = 512;

/// Small device arrays of one pass.
class Arrays {
 public:
  explicit Arrays(device::Device& device) : device_(device) {}
  ConstView place(std::span<const int32_t> values) {
    tensors_.push_back(device_.arena(device::MemoryClass::workspace)
                           .tensor(DType::i32, Shape{static_cast<int64_t>(values.size())}));
    device_.copy_to_device(tensors_.back(), values.data());
    return tensors_.back();
  }

 private:
  device::Device& device_;
  std::vector<device::Tensor> tensors_;
};

std::vector<int32_t> counting(int64_t from, int64_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(from));
  return numbers;
}

}  // namespace

KvCache::KvCache(device::Device& device, const models::ModelSpec& spec, DType dtype,
                 int64_t max_positions)
    : capacity_(max_positions) {
  const int64_t num_blocks = kernels::kv_cache_blocks(max_positions);
  for (const layers::LayerSpec& layer : spec.layers) {
    const kernels::KvCacheShape shape{dtype, layer.attention.kv_heads, layer.attention.head_dim,
                                      num_blocks};
    storage_.push_back(device.arena(device::MemoryClass::activations)
                           .tensor(dtype, Shape{kernels::kv_cache_elements(shape)}));
    layers_.push_back({shape, storage_.back()});
  }
  blocks_ = counting(0, num_blocks);
  block_table_ =
      device.arena(device::MemoryClass::workspace).tensor(DType::i32, Shape{1, num_blocks});
  device.copy_to_device(block_table_, blocks_.data());
}

InferenceModel::InferenceModel(const models::ModelSpec& spec, device::Device& device,
                               const Options& options)
    : spec_(spec),
      device_(device),
      options_(options),
      exec_(device, options.numerics),
      alone_(comm::make_self_communicator(device)) {
  spec.check("model");
  model_ = std::make_unique<models::Decoder>(spec, set_, models::Stage::whole(spec),
                                             layers::Partition{options.tensor_shards, 1, 0, 1});
  set_.allocate(device, {options.compute, options.compute, false, 0});
}

layers::Context InferenceModel::context() {
  return {exec_, *alone_, options_.tensor_shards, options_.compute, DType::f32, 0, 0};
}

void InferenceModel::check_ids(std::span<const int32_t> ids, int64_t limit) const {
  if (ids.empty()) throw UserError("there are no tokens to read; give at least one");
  if (static_cast<int64_t>(ids.size()) > limit) {
    throw UserError("{} tokens are more than the model's context of {}", ids.size(), spec_.context);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= spec_.vocab) {
      throw UserError("token id {} at position {} is outside the vocabulary of {}", ids[i], i,
                      spec_.vocab);
    }
  }
}

std::vector<double> InferenceModel::score(std::span<const int32_t> ids) {
  check_ids(ids, spec_.context);
  const auto tokens = static_cast<int64_t>(ids.size()) - 1;
  if (tokens == 0) return {};
  Arrays arrays(device_);
  const std::vector<int32_t> positions = counting(0, tokens);
  const std::vector<int32_t> cu_seqlens{0, static_cast<int32_t>(tokens)};
  layers::Batch batch;
  batch.num_tokens = tokens;
  batch.ids_T = arrays.place(ids.first(static_cast<size_t>(tokens)));
  batch.targets_T = arrays.place(ids.subspan(1));
  batch.position_T = arrays.place(positions);
  batch.own.count = tokens;
  batch.own.position_T = batch.position_T;
  const std::vector<int32_t> reach{static_cast<int32_t>(ids.size())};
  batch.cu_seqlens = cu_seqlens;
  batch.reach = reach;
  batch.cu_seqlens_device = arrays.place(cu_seqlens);
  layers::Context context = this->context();
  const device::Tensor x = context.workspace(context.activation, Shape{tokens, spec_.hidden});
  const device::Tensor loss_T = context.workspace(DType::f32, Shape{tokens});
  model_->hidden(context, batch, x);
  model_->score(context, batch, x, loss_T);
  std::vector<float> loss(static_cast<size_t>(tokens));
  device_.wait(device_.copy_to_host(loss.data(), loss_T.view));
  std::vector<double> logprobs(loss.size());
  std::ranges::transform(loss, logprobs.begin(),
                         [](float x_loss) { return -static_cast<double>(x_loss); });
  return logprobs;
}

KvCache InferenceModel::make_cache(int64_t max_positions) {
  return KvCache(device_, spec_, options_.compute, std::min(max_positions, spec_.context));
}

std::vector<float> InferenceModel::extend(KvCache& cache, std::span<const int32_t> ids) {
  check_ids(ids, cache.capacity() - cache.length());
  const device::Tensor logits = exec_.workspace.tensor(DType::f32, Shape{1, spec_.padded_vocab()});
  const std::vector<int32_t> reach{static_cast<int32_t>(cache.capacity())};
  while (!ids.empty()) {
    const auto tokens = std::min<int64_t>(static_cast<int64_t>(ids.size()), kPrefillChunk);
    Arrays arrays(device_);
    const std::vector<int32_t> positions = counting(cache.length(), tokens);
    const std::vector<int32_t> cu_seqlens{0, static_cast<int32_t>(tokens)};
    const std::vector<int32_t> past{static_cast<int32_t>(cache.length())};
    layers::Batch batch;
    batch.num_tokens = tokens;
    batch.ids_T = arrays.place(ids.first(static_cast<size_t>(tokens)));
    batch.position_T = arrays.place(positions);
    batch.own.count = tokens;
    batch.own.position_T = batch.position_T;
    batch.cu_seqlens = cu_seqlens;
    batch.reach = reach;
    batch.cu_seqlens_device = arrays.place(cu_seqlens);
    const layers::KvCacheBinding binding{
        cache.layers_,
        {cu_seqlens, past, batch.cu_seqlens_device, arrays.place(past), cache.block_table_.view}};
    batch.cache = &binding;
    layers::Context context = this->context();
    const device::Tensor x = context.workspace(context.activation, Shape{tokens, spec_.hidden});
    model_->hidden(context, batch, x);
    cache.length_ += tokens;
    ids = ids.subspan(static_cast<size_t>(tokens));
    if (ids.empty()) model_->logits(context, x.view.rows(tokens - 1, 1), logits);
  }
  std::vector<float> host(static_cast<size_t>(spec_.vocab));
  if (device_.is_trace()) return host;
  device_.wait(device_.copy_to_host(host.data(), logits.view.columns(0, spec_.vocab)));
  return host;
}

}  // namespace megalith::engine
