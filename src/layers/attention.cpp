// SPDX-License-Identifier: Apache-2.0
#include "layers/attention.h"

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/attention/kv_cache.h"

namespace megalith::layers {

/// Sizes on this rank.
struct Attention::Heads {
  int64_t queries, kv, size, begin;
  float scale;
};

Attention::Attention(parameters::ParameterSet& set, const std::string& name,
                     const AttentionConfig& config, const Partition& partition)
    : config_(config),
      qkv_(set, name + ".qkv", config.hidden,
           (config.heads + 2 * config.kv_heads) * exact_div(config.hidden, config.heads),
           config.init_std, partition),
      output_(set, name + ".output", config.hidden, config.hidden, config.output_init_std,
              partition) {}

Attention::Heads Attention::heads_of(const Context& context) const {
  const int64_t ranks = context.tensor.size();
  const int64_t size = config_.hidden / config_.heads;
  const int64_t queries = exact_div(config_.heads, ranks);
  return {queries, exact_div(config_.kv_heads, ranks), size, context.tensor.rank() * queries,
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)))};
}

kernels::AttentionDropout Attention::dropout_of(const Context& context, const Batch& batch,
                                                int64_t layer) const {
  return {static_cast<float>(context.dropout),
          context.dropout_key(layer, DropoutSite::probabilities), batch.sample_S,
          batch.sample_position_S, heads_of(context).begin};
}

void Attention::forward(Context& context, const Batch& batch, int64_t layer, ConstView x_TH,
                        View y_TH, AttentionSaved* saved, bool keep_probabilities) const {
  const Heads h = heads_of(context);
  const int64_t tokens = batch.num_tokens;
  const auto place = [&](device::Tensor* kept, DType dtype, const Shape& shape) {
    if (saved == nullptr) return context.workspace(dtype, shape);
    *kept = context.saved(dtype, shape);
    return device::Tensor{{}, kept->view};
  };
  AttentionSaved none;
  AttentionSaved& keep = saved != nullptr ? *saved : none;
  const device::Tensor qkv =
      place(&keep.qkv_TC, context.activation, Shape{tokens, qkv_.local_outputs()});
  const device::Tensor core =
      place(&keep.y_TC, context.activation, Shape{tokens, h.queries * h.size});
  qkv_.forward(context, batch, x_TH, qkv);
  context.inspect("qkv", qkv);
  const ConstView fused = qkv;
  const auto q = kernels::queries(fused, h.queries, h.kv, h.size);
  const auto k = kernels::keys(fused, h.queries, h.kv, h.size);
  const auto v = kernels::values(fused, h.queries, h.kv, h.size);
  if (batch.cache != nullptr) {
    const KvCacheBinding& cache = *batch.cache;
    const View storage = cache.layers[static_cast<size_t>(layer)];
    kernels::kv_cache_append(context.exec, {cache.shape, storage, cache.sequences, k, v});
    kernels::attention_cached(context.exec, {cache.shape, storage, cache.sequences, h.scale, q,
                                             kernels::heads(core.view, h.queries, h.size)});
  } else {
    View lse, probabilities;
    if (saved != nullptr) {
      saved->lse_NT = context.saved(context.accumulation, Shape{h.queries, tokens});
      lse = saved->lse_NT;
      if (config_.materialised && keep_probabilities) {
        this->keep_probabilities(context, batch, *saved);
        probabilities = saved->probabilities;
      }
    }
    kernels::attention_forward(context.exec,
                               {{batch.cu_seqlens, batch.cu_seqlens_device, batch.causal},
                                h.scale,
                                q,
                                k,
                                v,
                                kernels::heads(core.view, h.queries, h.size),
                                lse,
                                probabilities,
                                dropout_of(context, batch, layer)});
  }
  context.inspect("core", core);
  output_.forward(context, batch, core, y_TH);
  context.inspect("output", y_TH);
}

void Attention::keep_probabilities(Context& context, const Batch& batch,
                                   AttentionSaved& saved) const {
  const Shape shape{
      kernels::attention_probabilities_elements(batch.cu_seqlens, heads_of(context).queries)};
  saved.probabilities = context.saved(context.activation, shape);
  saved.paper_mask = context.paper_mask(shape);
  if (context.paper_storage) saved.paper_dropped = context.saved(context.activation, shape);
}

/// What forward had without keeping it: the same call once more. In f32 backward makes the same
/// bits out of q, k and lse by itself; narrower storage rounds, and the rounded ones are needed.
device::Tensor Attention::probabilities_again(Context& context, const Batch& batch, int64_t layer,
                                              const AttentionSaved& saved) const {
  if (!config_.materialised || context.activation != DType::bf16) return {};
  const Heads h = heads_of(context);
  device::Tensor probabilities = context.workspace(
      context.activation,
      Shape{kernels::attention_probabilities_elements(batch.cu_seqlens, h.queries)});
  const device::Tensor core = context.workspace(context.activation, saved.y_TC.view.shape());
  const device::Tensor lse = context.workspace(context.accumulation, saved.lse_NT.view.shape());
  const ConstView fused = saved.qkv_TC;
  kernels::attention_forward(context.exec,
                             {{batch.cu_seqlens, batch.cu_seqlens_device, batch.causal},
                              h.scale,
                              kernels::queries(fused, h.queries, h.kv, h.size),
                              kernels::keys(fused, h.queries, h.kv, h.size),
                              kernels::values(fused, h.queries, h.kv, h.size),
                              kernels::heads(core.view, h.queries, h.size),
                              lse,
                              probabilities,
                              dropout_of(context, batch, layer)});
  return probabilities;
}

void Attention::backward(Context& context, const Batch& batch, int64_t layer, ConstView dy_TH,
                         ConstView x_TH, const AttentionSaved& saved, View dx_TH) const {
  const Heads h = heads_of(context);
  const int64_t tokens = batch.num_tokens;
  const device::Tensor dqkv =
      context.workspace(context.activation, Shape{tokens, qkv_.local_outputs()});
  {
    const device::Tensor dcore =
        context.workspace(context.activation, Shape{tokens, h.queries * h.size});
    output_.backward(context, batch, dy_TH, saved.y_TC, dcore);
    device::Tensor again;
    ConstView probabilities = saved.probabilities;
    if (probabilities.absent()) {
      again = probabilities_again(context, batch, layer, saved);
      probabilities = again;
    }
    const ConstView fused = saved.qkv_TC, core = saved.y_TC, dcore_view = dcore;
    kernels::attention_backward(context.exec,
                                {{batch.cu_seqlens, batch.cu_seqlens_device, batch.causal},
                                 h.scale,
                                 kernels::queries(fused, h.queries, h.kv, h.size),
                                 kernels::keys(fused, h.queries, h.kv, h.size),
                                 kernels::values(fused, h.queries, h.kv, h.size),
                                 kernels::heads(core, h.queries, h.size),
                                 kernels::heads(dcore_view, h.queries, h.size),
                                 saved.lse_NT,
                                 probabilities,
                                 kernels::queries(dqkv.view, h.queries, h.kv, h.size),
                                 kernels::keys(dqkv.view, h.queries, h.kv, h.size),
                                 kernels::values(dqkv.view, h.queries, h.kv, h.size),
                                 dropout_of(context, batch, layer)});
  }
  context.inspect("qkv_gradient", dqkv);
  qkv_.backward(context, batch, dqkv, x_TH, dx_TH);
}

}  // namespace megalith::layers
