// SPDX-License-Identifier: Apache-2.0
#include "layers/cross_attention.h"

#include "kernels/elementwise/pointwise.h"

namespace megalith::layers {

CrossAttention::CrossAttention(parameters::ParameterSet& set, const std::string& name,
                               const LayerPlace& place, const AttentionConfig& config,
                               const Partition& partition)
    : place_(place),
      spec_(config.spec),
      q_(set, name + ".q",
         {.inputs = config.hidden,
          .outputs = spec_.query_width(),
          .bias = spec_.qkv_bias,
          .init_std = config.init_std},
         partition),
      kv_(set, name + ".kv",
          {.inputs = config.hidden,
           .outputs = spec_.kv_width(),
           .bias = spec_.qkv_bias,
           .init_std = config.init_std},
          partition),
      norms_(set, name, spec_, config.norm, partition),
      core_(spec_, place.in_model, DropoutSite::cross_probabilities),
      output_(set, name + ".output",
              {.inputs = spec_.query_width(),
               .outputs = config.hidden,
               .bias = spec_.output_bias,
               .init_std = config.output_init_std},
              partition) {
  MEGA_CHECK(!spec_.causal && spec_.rope.dim == 0 && !spec_.relative && spec_.window == 0,
             "cross attention has no order of positions");
}

int64_t CrossAttention::kv_columns(const Context& context) const {
  const LocalHeads h = local_heads(spec_, context);
  return 2 * h.kv * h.size;
}

/// kv_SC = rows w^T + b, shared heads whole.
void CrossAttention::project(Context& context, const Memory& memory, View kv_SC) const {
  kv_.forward(context, *memory.batch, memory.rows_TH, kv_SC.columns(0, kv_.local_outputs()));
  if (const LocalHeads h = local_heads(spec_, context); h.sharers > 1)
    gather_shared(context, h, kv_SC);
}

void CrossAttention::keep(Context& context, const Memory& memory,
                          const KvCacheBinding& cache) const {
  const device::Tensor kv_SC =
      context.workspace(context.activation, Shape{memory.batch->num_tokens, kv_columns(context)});
  project(context, memory, kv_SC);
  const LocalHeads h = local_heads(spec_, context);
  const kernels::HeadsView k = kernels::fused_heads(kv_SC.view, h.kv, 2 * h.size, 0, 1, h.size);
  if (norms_) norms_.forward(context, {{{}, k}}, {{{}, k}}, nullptr);
  const auto& [shape, storage, group] = cache.memory[static_cast<size_t>(place_.in_cache)];
  kernels::kv_cache_append(context.exec,
                           {shape, storage, cache.groups[group], k,
                            kernels::fused_heads(kv_SC.view, h.kv, 2 * h.size, h.size, 1, h.size)});
}

/// Queries q_TC, normalised in place, over what the cache has of the memory.
void CrossAttention::attend_cached(Context& context, const KvCacheBinding& cache, View q_TC,
                                   View y_TC) const {
  const LocalHeads h = local_heads(spec_, context);
  const kernels::HeadsView q = kernels::heads(q_TC, h.queries, h.size);
  if (norms_) norms_.forward(context, {{q, {}}}, {{q, {}}}, nullptr);
  const auto& [shape, storage, group] = cache.memory[static_cast<size_t>(place_.in_cache)];
  kernels::attention_cached(context.exec, {.shape = shape,
                                           .cache = storage,
                                           .sequences = cache.groups[group],
                                           .scale = h.scale,
                                           .q_TND = q,
                                           .y_TND = kernels::heads(y_TC, h.queries, h.size),
                                           .softcap = static_cast<float>(spec_.softcap)});
}

AttentionOperands CrossAttention::heads_in(const Context& context, const Batch& batch, View q_TC,
                                           View kv_SC) const {
  const LocalHeads h = local_heads(spec_, context);
  return {.queries = batch,
          .keys = batch.memory->batch,
          .q_TND = kernels::heads(q_TC, h.queries, h.size),
          .k_TKD = kernels::fused_heads(kv_SC, h.kv, 2 * h.size, 0, 1, h.size),
          .v_TKD = kernels::fused_heads(kv_SC, h.kv, 2 * h.size, h.size, 1, h.size)};
}

/// Room for what norms make of the operands, which are pointed to it.
CrossAttention::Normalised CrossAttention::place_normalised(Context& context,
                                                            AttentionOperands& operands) const {
  const LocalHeads h = local_heads(spec_, context);
  Normalised normalised;
  normalised.q_TC =
      context.workspace(context.activation, Shape{operands.q_TND.num_rows, h.queries * h.size});
  operands.q_TND = kernels::heads(normalised.q_TC.view, h.queries, h.size);
  normalised.k_SC =
      context.workspace(context.activation, Shape{operands.k_TKD.num_rows, h.kv * h.size});
  operands.k_TKD = kernels::heads(normalised.k_SC.view, h.kv, h.size);
  return normalised;
}

void CrossAttention::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                             CrossAttentionSaved* saved, bool keep_probabilities) const {
  const bool is_cached = batch.cache != nullptr;
  MEGA_CHECK(!is_cached || saved == nullptr, "keys and values in a cache have no gradient");
  const auto place = [&](device::Tensor* where, const Shape& shape) {
    if (saved == nullptr) return context.workspace(context.activation, shape);
    *where = context.saved(context.activation, shape);
    return device::Tensor{{}, where->view};
  };
  CrossAttentionSaved none;
  CrossAttentionSaved& keep = saved != nullptr ? *saved : none;
  AttentionCoreSaved* const core_saved = saved != nullptr ? &saved->core : nullptr;
  const device::Tensor q = place(&keep.q_TC, Shape{batch.num_tokens, q_.local_outputs()});
  device::Tensor kv;
  if (!is_cached) {
    MEGA_CHECK(batch.memory != nullptr, "cross attention of a batch without memory");
    const Memory& memory = *batch.memory;
    MEGA_CHECK_EQ(memory.batch->cu_seqlens.size(), batch.cu_seqlens.size());
    kv = place(&keep.kv_SC, Shape{memory.batch->num_tokens, kv_columns(context)});
    project(context, memory, kv);
    context.inspect("kv", kv);
  }
  const device::Tensor core = core_.place_output(context, batch.num_tokens, core_saved);
  q_.forward(context, batch, x_TH, q);
  context.inspect("q", q);
  if (is_cached) {
    attend_cached(context, *batch.cache, q, core);
  } else {
    AttentionOperands operands = heads_in(context, batch, q, kv);
    Normalised normalised;
    if (norms_) {
      const ConstQueriesAndKeys read = {operands.q_TND, operands.k_TKD};
      normalised = place_normalised(context, operands);
      norms_.forward(context, read, {operands.q_TND, operands.k_TKD},
                     saved != nullptr ? &saved->norms : nullptr);
    }
    core_.forward(context, operands, core, core_saved, keep_probabilities);
  }
  context.inspect("core", core);
  output_.forward(context, batch, core, y_TH);
  context.inspect("output", y_TH);
}

void CrossAttention::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                              const CrossAttentionSaved& saved, View dx_TH) const {
  const Memory& memory = *batch.memory;
  const LocalHeads h = local_heads(spec_, context);
  const View q = saved.q_TC, kv = saved.kv_SC;
  const device::Tensor dq = context.workspace(context.activation, q.shape());
  const device::Tensor dkv = context.workspace(context.activation, kv.shape());
  const AttentionOperands read = heads_in(context, batch, q, kv);
  const AttentionOperands gradients = heads_in(context, batch, dq, dkv);
  {
    const device::Tensor dcore =
        context.workspace(context.activation, saved.core.y_TC.view.shape());
    output_.backward(context, batch, dy_TH, saved.core.y_TC, dcore);
    AttentionOperands operands = read;
    Normalised normalised;
    if (norms_) {
      normalised = place_normalised(context, operands);
      norms_.recompute(context, {read.q_TND, read.k_TKD}, {operands.q_TND, operands.k_TKD},
                       saved.norms);
    }
    core_.backward(context, operands, saved.core, dcore,
                   {.dq_TND = gradients.q_TND,
                    .dk_TKD = gradients.k_TKD,
                    .dv_TKD = kernels::fused_heads(dkv.view, h.kv, 2 * h.size, h.size, 1, h.size),
                    .shared_TC = dkv});
  }
  if (norms_) {
    norms_.backward(context, {gradients.q_TND, gradients.k_TKD}, {read.q_TND, read.k_TKD},
                    saved.norms);
  }
  context.inspect("q_gradient", dq);
  context.inspect("kv_gradient", dkv);
  q_.backward(context, batch, dq, x_TH, dx_TH);
  if (h.sharers > 1) keep_own_part(context, h, dkv);
  const device::Tensor dmemory = context.workspace(context.activation, memory.rows_TH.shape());
  kv_.backward(context, *memory.batch, dkv.view.columns(0, kv_.local_outputs()), memory.rows_TH,
               dmemory);
  kernels::add(context.exec, dmemory, memory.gradient_TH, memory.gradient_TH);
}

}  // namespace megalith::layers
