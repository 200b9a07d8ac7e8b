// SPDX-License-Identifier: Apache-2.0
#include "layers/attention.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/elementwise/pointwise.h"
#include "parallel/rank_blocks.h"

namespace megalith::layers {

using kernels::ConstHeadsView;
using kernels::HeadsView;

Attention::Attention(parameters::ParameterSet& set, const std::string& name,
                     const LayerPlace& place, const AttentionConfig& config,
                     const Partition& partition)
    : place_(place),
      spec_(config.spec),
      context_length_(config.context),
      qkv_(set, name + ".qkv",
           {.inputs = config.hidden,
            .outputs = spec_.qkv_width(),
            .bias = spec_.qkv_bias,
            .init_std = config.init_std,
            .grouped = {spec_.kv_heads, spec_.query_width() / spec_.kv_heads, 2 * spec_.head_dim}},
           partition),
      output_(set, name + ".output",
              {.inputs = spec_.query_width(),
               .outputs = config.hidden,
               .bias = spec_.output_bias,
               .init_std = config.output_init_std},
              partition) {
  if (spec_.qk_norm == QkNorm::none) return;
  MEGA_CHECK(spec_.qk_norm == QkNorm::head, "a norm over all heads is not built");
  q_norm_.emplace(set, name + ".q_norm", spec_.head_dim, config.norm, partition);
  k_norm_.emplace(set, name + ".k_norm", spec_.head_dim, config.norm, partition);
}

kernels::AttentionSequences Attention::sequences_of(const Batch& batch) const {
  return {.cu_seqlens = batch.cu_seqlens,
          .cu_seqlens_device = batch.cu_seqlens_device,
          .causal = spec_.causal,
          .window_left = spec_.window > 0 ? spec_.window - 1 : -1};
}

kernels::AttentionDropout Attention::dropout_of(const Context& context, const Batch& batch) const {
  return {static_cast<float>(context.dropout),
          context.dropout_key(place_.in_model, DropoutSite::probabilities), batch.sample_S,
          batch.sample_position_S, heads_of(context).begin};
}

void Attention::attend(Context& context, const Batch& batch, const Prepared& prepared, View y_TC,
                       View lse, View probabilities) const {
  const Heads h = heads_of(context);
  kernels::attention_forward(context.exec, {.sequences = sequences_of(batch),
                                            .scale = h.scale,
                                            .q_TND = prepared.q_TND,
                                            .k_TKD = prepared.k_TKD,
                                            .v_TKD = prepared.v_TKD,
                                            .y_TND = kernels::heads(y_TC, h.queries, h.size),
                                            .lse_NT = lse,
                                            .probabilities = probabilities,
                                            .dropout = dropout_of(context, batch),
                                            .softcap = static_cast<float>(spec_.softcap)});
}

void Attention::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                        AttentionSaved* saved, bool keep_probabilities) const {
  const Heads h = heads_of(context);
  const int64_t tokens = batch.num_tokens;
  const auto place = [&](device::Tensor* kept, const Shape& shape) {
    if (saved == nullptr) return context.workspace(context.activation, shape);
    *kept = context.saved(context.activation, shape);
    return device::Tensor{{}, kept->view};
  };
  AttentionSaved none;
  AttentionSaved& keep = saved != nullptr ? *saved : none;
  const device::Tensor qkv = place(&keep.qkv_TC, Shape{tokens, (h.queries + 2 * h.kv) * h.size});
  const device::Tensor core = place(&keep.y_TC, Shape{tokens, h.queries * h.size});
  qkv_.forward(context, batch, x_TH, qkv.view.columns(0, h.own_columns));
  gather_shared(context, qkv);
  context.inspect("qkv", qkv);
  {
    const Prepared prepared = prepare(context, batch, qkv, saved);
    if (batch.cache != nullptr) {
      const KvCacheBinding& cache = *batch.cache;
      const auto& [shape, storage] = cache.layers[static_cast<size_t>(place_.in_cache)];
      kernels::kv_cache_append(context.exec,
                               {shape, storage, cache.sequences, prepared.k_TKD, prepared.v_TKD});
      kernels::attention_cached(context.exec,
                                {.shape = shape,
                                 .cache = storage,
                                 .sequences = cache.sequences,
                                 .scale = h.scale,
                                 .q_TND = prepared.q_TND,
                                 .y_TND = kernels::heads(core.view, h.queries, h.size),
                                 .window_left = spec_.window > 0 ? spec_.window - 1 : -1,
                                 .softcap = static_cast<float>(spec_.softcap)});
    } else {
      View lse, probabilities;
      if (saved != nullptr) {
        saved->lse_NT = context.saved(context.accumulation, Shape{h.queries, tokens});
        lse = saved->lse_NT;
        if (spec_.materialised && keep_probabilities) {
          this->keep_probabilities(context, batch, *saved);
          probabilities = saved->probabilities;
        }
      }
      attend(context, batch, prepared, core, lse, probabilities);
    }
  }
  context.inspect("core", core);
  output_.forward(context, batch, core, y_TH);
  context.inspect("output", y_TH);
}

void Attention::keep_probabilities(Context& context, const Batch& batch,
                                   AttentionSaved& saved) const {
  saved.probabilities =
      context.saved(context.activation, Shape{kernels::attention_probabilities_elements(
                                            batch.cu_seqlens, heads_of(context).queries)});
}

/// What forward had without keeping it: the same call once more. In f32 backward makes the same
/// bits out of q, k and lse by itself; narrower storage rounds, and the rounded ones are needed.
device::Tensor Attention::probabilities_again(Context& context, const Batch& batch,
                                              const Prepared& prepared,
                                              const AttentionSaved& saved) const {
  if (!spec_.materialised || context.activation != DType::bf16) return {};
  device::Tensor probabilities =
      context.workspace(context.activation, Shape{kernels::attention_probabilities_elements(
                                                batch.cu_seqlens, heads_of(context).queries)});
  const device::Tensor core = context.workspace(context.activation, saved.y_TC.view.shape());
  const device::Tensor lse = context.workspace(context.accumulation, saved.lse_NT.view.shape());
  attend(context, batch, prepared, core, lse, probabilities);
  return probabilities;
}

/// Gradients of prepared heads, dqkv_TC overwritten. Those of a shared key and value are the
/// canonical tree over all that have query heads for it, rounded once, on each of them.
void Attention::core_backward(Context& context, const Batch& batch, const Prepared& prepared,
                              const AttentionSaved& saved, ConstView dcore_TC, View dqkv_TC) const {
  const Heads h = heads_of(context);
  device::Tensor again;
  ConstView probabilities = saved.probabilities;
  if (probabilities.absent()) {
    again = probabilities_again(context, batch, prepared, saved);
    probabilities = again;
  }
  HeadsView dk = kernels::keys(dqkv_TC, h.queries, h.kv, h.size);
  HeadsView dv = kernels::values(dqkv_TC, h.queries, h.kv, h.size);
  device::Tensor shared_TC;
  if (h.sharers > 1) {
    shared_TC = context.workspace(context.accumulation, Shape{dqkv_TC.size(0), 2 * h.size});
    dk = kernels::heads(shared_TC.view.columns(0, h.size), 1, h.size);
    dv = kernels::heads(shared_TC.view.columns(h.size, h.size), 1, h.size);
  }
  const ConstView core = saved.y_TC;
  kernels::attention_backward(context.exec,
                              {.sequences = sequences_of(batch),
                               .scale = h.scale,
                               .q_TND = prepared.q_TND,
                               .k_TKD = prepared.k_TKD,
                               .v_TKD = prepared.v_TKD,
                               .y_TND = kernels::heads(core, h.queries, h.size),
                               .dy_TND = kernels::heads(dcore_TC, h.queries, h.size),
                               .lse_NT = saved.lse_NT,
                               .probabilities = probabilities,
                               .dq_TND = kernels::queries(dqkv_TC, h.queries, h.kv, h.size),
                               .dk_TKD = dk,
                               .dv_TKD = dv,
                               .dropout = dropout_of(context, batch),
                               .softcap = static_cast<float>(spec_.softcap),
                               .kv_partials = h.kv_partials});
  if (h.sharers == 1) return;
  parallel::tree_sum_in_block(context.exec, context.tensor, h.sharers, shared_TC,
                              "attention.kv_gradient");
  kernels::cast(context.exec, shared_TC, dqkv_TC.columns(h.first_shared, 2 * h.size));
}

void Attention::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                         const AttentionSaved& saved, View dx_TH) const {
  const Heads h = heads_of(context);
  const View qkv = saved.qkv_TC;
  const device::Tensor dqkv = context.workspace(context.activation, qkv.shape());
  const HeadsView dq = kernels::queries(dqkv.view, h.queries, h.kv, h.size);
  const HeadsView dk = kernels::keys(dqkv.view, h.queries, h.kv, h.size);
  {
    const device::Tensor dcore = context.workspace(context.activation, saved.y_TC.view.shape());
    output_.backward(context, batch, dy_TH, saved.y_TC, dcore);
    // Norms leave their input in place, so what attention read is made again; else it is there.
    Prepared prepared{{},
                      kernels::queries(qkv, h.queries, h.kv, h.size),
                      kernels::keys(qkv, h.queries, h.kv, h.size),
                      kernels::values(qkv, h.queries, h.kv, h.size)};
    if (q_norm_) prepared = prepare(context, batch, qkv, nullptr);
    core_backward(context, batch, prepared, saved, dcore, dqkv);
  }
  turn(context, batch, dq, dk, true);
  if (q_norm_) {
    q_norm_->backward(context, dq, kernels::queries(qkv, h.queries, h.kv, h.size), saved.q_norm);
    // The weight's gradient counts a shared head once.
    k_norm_->backward(context, dk, kernels::keys(qkv, h.queries, h.kv, h.size), saved.k_norm,
                      context.tensor.rank() % h.sharers == 0);
  }
  context.inspect("qkv_gradient", dqkv);
  const int64_t part = h.own_columns - h.first_shared;
  if (const int rank = context.tensor.rank() % h.sharers; rank > 0) {
    context.device().copy(dqkv.view.columns(h.first_shared, part),
                          dqkv.view.columns(h.first_shared + rank * part, part));
  }
  qkv_.backward(context, batch, dqkv.view.columns(0, h.own_columns), x_TH, dx_TH);
}

}  // namespace megalith::layers
