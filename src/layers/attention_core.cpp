// SPDX-License-Identifier: Apache-2.0
#include "layers/attention_core.h"

#include "kernels/elementwise/pointwise.h"
#include "parallel/rank_blocks.h"

namespace megalith::layers {

using kernels::HeadsView;

AttentionCore::AttentionCore(const AttentionSpec& spec, int64_t layer, DropoutSite site,
                             const parameters::Parameter* relative)
    : spec_(spec), layer_(layer), site_(site), relative_(relative) {
  MEGA_CHECK(spec.relative.has_value() == (relative != nullptr),
             "attention with relative positions and without their table, or the other way round");
}

kernels::AttentionBias AttentionCore::bias() const {
  if (relative_ == nullptr) return {};
  return {relative_->compute(), spec_.relative_buckets()};
}

kernels::AttentionSequences AttentionCore::sequences(const AttentionOperands& operands) const {
  const int64_t side = spec_.window > 0 ? spec_.window - 1 : -1;
  kernels::AttentionSequences sequences{.cu_seqlens = operands.queries.cu_seqlens,
                                        .cu_seqlens_device = operands.queries.cu_seqlens_device,
                                        .causal = spec_.causal,
                                        .window_left = side,
                                        .window_right = spec_.causal ? -1 : side};
  if (operands.keys != nullptr) {
    sequences.cu_seqlens_keys = operands.keys->cu_seqlens;
    sequences.cu_seqlens_keys_device = operands.keys->cu_seqlens_device;
  }
  return sequences;
}

kernels::AttentionDropout AttentionCore::dropout(const Context& context, const Batch& batch) const {
  return {static_cast<float>(context.dropout), context.dropout_key(layer_, site_), batch.sample_S,
          batch.sample_position_S, local_heads(spec_, context).begin};
}

int64_t AttentionCore::num_probabilities(const Context& context,
                                         const AttentionOperands& operands) const {
  return kernels::attention_probabilities_elements(operands.queries.cu_seqlens,
                                                   local_heads(spec_, context).queries,
                                                   sequences(operands).cu_seqlens_keys);
}

device::Tensor AttentionCore::place_output(Context& context, int64_t tokens,
                                           AttentionCoreSaved* saved) const {
  const LocalHeads h = local_heads(spec_, context);
  const Shape shape{tokens, h.queries * h.size};
  if (saved == nullptr) return context.workspace(context.activation, shape);
  saved->y_TC = context.saved(context.activation, shape);
  return device::Tensor{{}, saved->y_TC.view};
}

void AttentionCore::attend(Context& context, const AttentionOperands& operands, View y_TC,
                           View lse_NT, View probabilities) const {
  const LocalHeads h = local_heads(spec_, context);
  kernels::attention_forward(context.exec, {.sequences = sequences(operands),
                                            .scale = h.scale,
                                            .q_TND = operands.q_TND,
                                            .k_TKD = operands.k_TKD,
                                            .v_TKD = operands.v_TKD,
                                            .y_TND = kernels::heads(y_TC, h.queries, h.size),
                                            .lse_NT = lse_NT,
                                            .probabilities = probabilities,
                                            .dropout = dropout(context, operands.queries),
                                            .softcap = static_cast<float>(spec_.softcap),
                                            .bias = bias()});
}

void AttentionCore::forward(Context& context, const AttentionOperands& operands, View y_TC,
                            AttentionCoreSaved* saved, bool keep_probabilities) const {
  if (saved == nullptr) return attend(context, operands, y_TC, {}, {});
  const LocalHeads h = local_heads(spec_, context);
  saved->lse_NT = context.saved(context.accumulation, Shape{h.queries, y_TC.size(0)});
  // In f16 backward takes them from q, k and lse, whoever kept them.
  if (spec_.materialised && keep_probabilities && context.activation != DType::f16) {
    saved->probabilities =
        context.saved(context.activation, Shape{num_probabilities(context, operands)});
  }
  attend(context, operands, y_TC, saved->lse_NT, saved->probabilities);
}

/// What forward had without keeping it: the same call once more. In f32 backward makes the same
/// bits out of q, k and lse by itself, and in f16 it never reads others; bf16 has rounded ones, and
/// these are needed.
device::Tensor AttentionCore::probabilities_again(Context& context,
                                                  const AttentionOperands& operands,
                                                  const AttentionCoreSaved& saved) const {
  if (!spec_.materialised || context.activation != DType::bf16) return {};
  device::Tensor probabilities =
      context.workspace(context.activation, Shape{num_probabilities(context, operands)});
  const device::Tensor core = context.workspace(context.activation, saved.y_TC.view.shape());
  const device::Tensor lse = context.workspace(context.accumulation, saved.lse_NT.view.shape());
  attend(context, operands, core, lse, probabilities);
  return probabilities;
}

void AttentionCore::backward(Context& context, const AttentionOperands& operands,
                             const AttentionCoreSaved& saved, ConstView dy_TC,
                             const AttentionGradients& gradients) const {
  const LocalHeads h = local_heads(spec_, context);
  device::Tensor again;
  ConstView probabilities = saved.probabilities;
  if (probabilities.absent()) {
    again = probabilities_again(context, operands, saved);
    probabilities = again;
  }
  HeadsView dk = gradients.dk_TKD, dv = gradients.dv_TKD;
  device::Tensor shared;
  if (h.sharers > 1) {
    shared = context.workspace(context.accumulation, gradients.shared_TC.shape());
    dk = kernels::heads(shared.view.columns(0, h.size), 1, h.size);
    dv = kernels::heads(shared.view.columns(h.size, h.size), 1, h.size);
  }
  const ConstView y_TC = saved.y_TC;
  const bool has_gradient = relative_ != nullptr && relative_->trainable();
  kernels::attention_backward(context.exec,
                              {.sequences = sequences(operands),
                               .scale = h.scale,
                               .q_TND = operands.q_TND,
                               .k_TKD = operands.k_TKD,
                               .v_TKD = operands.v_TKD,
                               .y_TND = kernels::heads(y_TC, h.queries, h.size),
                               .dy_TND = kernels::heads(dy_TC, h.queries, h.size),
                               .lse_NT = saved.lse_NT,
                               .probabilities = probabilities,
                               .dq_TND = gradients.dq_TND,
                               .dk_TKD = dk,
                               .dv_TKD = dv,
                               .dropout = dropout(context, operands.queries),
                               .softcap = static_cast<float>(spec_.softcap),
                               .kv_partials = h.kv_partials,
                               .bias = bias(),
                               .dtable_BN = has_gradient ? relative_->gradient_sum() : View{}});
  if (h.sharers == 1) return;
  parallel::tree_sum_in_block(context.exec, context.tensor, h.sharers, shared,
                              "attention.kv_gradient");
  kernels::cast(context.exec, shared, gradients.shared_TC);
}

}  // namespace megalith::layers
