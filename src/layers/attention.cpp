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
                        View y_TH, AttentionSaved* saved) const {
  const Heads h = heads_of(context);
  const int64_t tokens = x_TH.size(0);
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
  qkv_.forward(context, x_TH, qkv);
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
      if (config_.materialised) {
        saved->probabilities = context.saved(
            context.activation,
            Shape{kernels::attention_probabilities_elements(batch.cu_seqlens, h.queries)});
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
  output_.forward(context, core, y_TH);
}

void Attention::backward(Context& context, const Batch& batch, int64_t layer, ConstView dy_TH,
                         ConstView x_TH, const AttentionSaved& saved, View dx_TH) const {
  const Heads h = heads_of(context);
  const int64_t tokens = x_TH.size(0);
  const device::Tensor dqkv =
      context.workspace(context.activation, Shape{tokens, qkv_.local_outputs()});
  {
    const device::Tensor dcore =
        context.workspace(context.activation, Shape{tokens, h.queries * h.size});
    output_.backward(context, batch, dy_TH, saved.y_TC, dcore);
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
                                 saved.probabilities,
                                 kernels::queries(dqkv.view, h.queries, h.kv, h.size),
                                 kernels::keys(dqkv.view, h.queries, h.kv, h.size),
                                 kernels::values(dqkv.view, h.queries, h.kv, h.size),
                                 dropout_of(context, batch, layer)});
  }
  qkv_.backward(context, dqkv, x_TH, dx_TH);
}

}  // namespace megalith::layers
