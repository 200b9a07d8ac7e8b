// SPDX-License-Identifier: Apache-2.0
#include "layers/attention.h"

#include "kernels/attention/kv_cache.h"
#include "spec/rotary_frequencies.h"

namespace megalith::layers {

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
      norms_(set, name, spec_, config.norm, partition),
      core_(spec_, place.in_model, DropoutSite::probabilities, config.relative),
      output_(set, name + ".output",
              {.inputs = spec_.query_width(),
               .outputs = config.hidden,
               .bias = spec_.output_bias,
               .init_std = config.output_init_std},
              partition) {}

/// Queries and keys at their positions, in place; `inverse` takes gradients back.
void Attention::turn(Context& context, const Batch& batch, const QueriesAndKeys& heads,
                     bool inverse) const {
  const RopeSpec& rope = spec_.rope;
  if (rope.dim == 0) return;
  const device::Tensor angles =
      context.workspace(context.accumulation, Shape{batch.num_tokens, rope.dim});
  const auto fill = [&](int64_t begin, int64_t count, int64_t length) {
    kernels::rotary_angles(context.exec,
                           {.position_T = batch.position_T.rows(begin, count),
                            .frequencies = rotary_frequencies(rope, context_length_, length),
                            .angles_TA = angles.view.rows(begin, count)});
  };
  if (!depends_on_length(rope.scaling)) {
    fill(0, batch.num_tokens, context_length_);
  } else {
    for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
      const int64_t begin = batch.cu_seqlens[s], count = batch.cu_seqlens[s + 1] - begin;
      fill(begin, count, batch.reach.empty() ? count : batch.reach[s]);
    }
  }
  const auto style =
      rope.interleaved ? kernels::RotaryStyle::interleaved : kernels::RotaryStyle::half;
  for (const HeadsView& x : heads) kernels::rotary_apply(context.exec, {x, angles, style, inverse});
}

AttentionOperands Attention::fused(const Context& context, const Batch& batch, View qkv_TC) const {
  const LocalHeads h = local_heads(spec_, context);
  return {.queries = batch,
          .q_TND = kernels::queries(qkv_TC, h.queries, h.kv, h.size),
          .k_TKD = kernels::keys(qkv_TC, h.queries, h.kv, h.size),
          .v_TKD = kernels::values(qkv_TC, h.queries, h.kv, h.size)};
}

/// Norms write to a buffer qk_TC [T, (N + K) D / t]; positions turn heads in place.
Attention::Prepared Attention::prepare(Context& context, const Batch& batch, View qkv_TC,
                                       const QkNormsSaved* again, QkNormsSaved* saved) const {
  const LocalHeads h = local_heads(spec_, context);
  Prepared prepared{{}, fused(context, batch, qkv_TC)};
  HeadsView &q = prepared.operands.q_TND, &k = prepared.operands.k_TKD;
  if (norms_) {
    prepared.qk_TC =
        context.workspace(context.activation, Shape{qkv_TC.size(0), (h.queries + h.kv) * h.size});
    const View qk = prepared.qk_TC;
    const QueriesAndKeys y = {
        kernels::heads(qk.columns(0, h.queries * h.size), h.queries, h.size),
        kernels::heads(qk.columns(h.queries * h.size, h.kv * h.size), h.kv, h.size)};
    if (again != nullptr) {
      norms_.recompute(context, {q, k}, y, *again);
    } else {
      norms_.forward(context, {q, k}, y, saved);
    }
    q = y[0];
    k = y[1];
  }
  turn(context, batch, {q, k}, false);
  return prepared;
}

void Attention::attend_cached(Context& context, const KvCacheBinding& cache,
                              const AttentionOperands& operands, View y_TC) const {
  MEGA_CHECK(spec_.causal, "a cache of keys for attention that is not causal");
  const LocalHeads h = local_heads(spec_, context);
  const auto& [shape, storage, group] = cache.layers[static_cast<size_t>(place_.in_cache)];
  const kernels::CachedSequences& sequences = cache.groups[group];
  kernels::kv_cache_append(context.exec,
                           {shape, storage, sequences, operands.k_TKD, operands.v_TKD});
  kernels::attention_cached(context.exec, {.shape = shape,
                                           .cache = storage,
                                           .sequences = sequences,
                                           .scale = h.scale,
                                           .q_TND = operands.q_TND,
                                           .y_TND = kernels::heads(y_TC, h.queries, h.size),
                                           .window_left = spec_.window > 0 ? spec_.window - 1 : -1,
                                           .softcap = static_cast<float>(spec_.softcap),
                                           .bias = core_.bias()});
}

void Attention::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                        AttentionSaved* saved, bool keep_probabilities, InputKept kept) const {
  const LocalHeads h = local_heads(spec_, context);
  const Shape wide{batch.num_tokens, (h.queries + 2 * h.kv) * h.size};
  device::Tensor passing;
  if (saved != nullptr) {
    saved->qkv_TC = context.saved(context.activation, wide);
  } else {
    passing = context.workspace(context.activation, wide);
  }
  const View qkv = saved != nullptr ? saved->qkv_TC : passing;
  AttentionCoreSaved* const core_saved = saved != nullptr ? &saved->core : nullptr;
  const device::Tensor core = core_.place_output(context, batch.num_tokens, core_saved);
  qkv_.forward(context, batch, x_TH, qkv.columns(0, qkv_.local_outputs()),
               kernels::Activation::none, {}, kept == InputKept::codes ? &saved->input : nullptr);
  if (h.sharers > 1) gather_shared(context, h, shared(h, qkv));
  context.inspect("qkv", qkv);
  {
    const Prepared prepared =
        prepare(context, batch, qkv, nullptr, saved != nullptr ? &saved->norms : nullptr);
    if (batch.cache != nullptr) {
      attend_cached(context, *batch.cache, prepared.operands, core);
    } else {
      core_.forward(context, prepared.operands, core, core_saved, keep_probabilities);
    }
  }
  context.inspect("core", core);
  output_.forward(context, batch, core, y_TH);
  context.inspect("output", y_TH);
}

void Attention::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                         const AttentionSaved& saved, View dx_TH) const {
  const LocalHeads h = local_heads(spec_, context);
  const View qkv = saved.qkv_TC;
  const device::Tensor dqkv = context.workspace(context.activation, qkv.shape());
  const QueriesAndKeys dheads = {kernels::queries(dqkv.view, h.queries, h.kv, h.size),
                                 kernels::keys(dqkv.view, h.queries, h.kv, h.size)};
  {
    const device::Tensor dcore =
        context.workspace(context.activation, saved.core.y_TC.view.shape());
    output_.backward(context, batch, dy_TH, saved.core.y_TC, dcore);
    // Norms leave their input in place, so what attention read is made again; else it is there.
    const Prepared prepared = norms_ ? prepare(context, batch, qkv, &saved.norms, nullptr)
                                     : Prepared{{}, fused(context, batch, qkv)};
    core_.backward(context, prepared.operands, saved.core, dcore,
                   {.dq_TND = dheads[0],
                    .dk_TKD = dheads[1],
                    .dv_TKD = kernels::values(dqkv.view, h.queries, h.kv, h.size),
                    .shared_TC = h.sharers > 1 ? shared(h, dqkv) : View{}});
  }
  turn(context, batch, dheads, true);
  if (norms_) {
    const AttentionOperands read = fused(context, batch, qkv);
    norms_.backward(context, dheads, {read.q_TND, read.k_TKD}, saved.norms);
  }
  context.inspect("qkv_gradient", dqkv);
  if (h.sharers > 1) keep_own_part(context, h, shared(h, dqkv));
  qkv_.backward(context, batch, dqkv.view.columns(0, qkv_.local_outputs()), x_TH, dx_TH,
                &saved.input);
}

}  // namespace megalith::layers
