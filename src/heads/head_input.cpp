// SPDX-License-Identifier: Apache-2.0
#include "heads/head_input.h"

#include "kernels/elementwise/activate.h"
#include "parallel/regions.h"

namespace megalith::layers {

HeadInput::HeadInput(parameters::ParameterSet& set, const HeadInputConfig& config,
                     const Partition& partition)
    : width_(config.transform ? config.width : config.hidden) {
  if (config.norm) norm_.emplace(set, "final_norm", config.hidden, *config.norm, partition);
  if (!config.transform) return;
  const TransformSpec& spec = *config.transform;
  WholeLinear product(set, "head.transform",
                      {.inputs = config.hidden,
                       .outputs = config.width,
                       .bias = spec.bias,
                       .init_std = config.init_std});
  transform_.emplace(
      Transform{product, spec.activation,
                Norm(set, "head.transform_norm", config.width, spec.norm, partition)});
}

void HeadInput::transform(Context& context, ConstView h_TH, View y_TE,
                          HeadInputSaved* saved) const {
  device::Tensor passing_u, passing_act;
  const auto place = [&](device::Tensor& passing, device::Tensor* kept) -> View {
    device::Tensor& where = kept != nullptr ? *kept : passing;
    where = kept != nullptr ? context.saved(context.activation, y_TE.shape())
                            : context.workspace(context.activation, y_TE.shape());
    return where;
  };
  const View u = place(passing_u, saved != nullptr ? &saved->u_TE : nullptr);
  const View act = place(passing_act, saved != nullptr ? &saved->act_TE : nullptr);
  transform_->product.forward(context, h_TH, u);
  kernels::activation_forward(context.exec, u, act, transform_->activation);
  transform_->norm.forward(context, act, y_TE, saved != nullptr ? &saved->transform_norm : nullptr);
}

/// Nothing where nothing is between.
device::Tensor HeadInput::own_rows(Context& context, ConstView x_TH, HeadInputSaved* saved) const {
  device::Tensor normed;
  ConstView h = x_TH;
  if (norm_) {
    const bool kept = saved != nullptr && transform_;
    normed = kept ? context.saved(context.activation, x_TH.shape())
                  : context.workspace(context.activation, x_TH.shape());
    norm_->forward(context, x_TH, normed, saved != nullptr ? &saved->norm : nullptr);
    context.inspect("final_norm", normed);
    h = normed;
  }
  if (!transform_) return normed;
  device::Tensor y = context.workspace(context.activation, Shape{x_TH.size(0), width_});
  transform(context, h, y, saved);
  context.inspect("transform", y);
  if (saved != nullptr) saved->h_TH = std::move(normed);
  return y;
}

HeadRows HeadInput::rows(Context& context, ConstView x_RH) const {
  return {own_rows(context, x_RH, nullptr), {}, x_RH};
}

HeadRows HeadInput::forward(Context& context, const Batch& batch, ConstView x_TH,
                            HeadInputSaved* saved, std::string_view label) const {
  HeadRows rows{own_rows(context, x_TH, saved), {}, x_TH};
  if (!context.sequence) return rows;
  rows.gathered = context.workspace(context.activation, Shape{batch.num_tokens, width_});
  const ConstView own = rows.own.view.absent() ? rows.plain : ConstView(rows.own.view);
  parallel::gather_rows_forward(context.exec, context.tensor, own, rows.gathered,
                                sequence_shard(batch), label);
  rows.own = {};
  return rows;
}

void HeadInput::last_hidden(Context& context, ConstView x_RH, View y_RH) const {
  if (norm_) {
    norm_->forward(context, x_RH, y_RH, nullptr);
  } else {
    context.device().copy(y_RH, x_RH);
  }
}

void HeadInput::backward(Context& context, const Batch& batch, View dy_TE, ConstView x_TH,
                         const HeadInputSaved& saved, View dx_TH) const {
  View dh = dy_TE;
  if (transform_) {
    transform_->norm.backward(context, batch, {.dy_TH = dy_TE, .dx_TH = dy_TE}, saved.act_TE,
                              saved.transform_norm);
    kernels::activation_backward(context.exec, dy_TE, saved.u_TE, dy_TE, transform_->activation);
    const ConstView h = norm_ ? ConstView(saved.h_TH) : x_TH;
    transform_->product.backward(context, batch, dy_TE, h, dx_TH);
    dh = dx_TH;
  }
  if (norm_) {
    norm_->backward(context, batch, {.dy_TH = dh, .dx_TH = dx_TH}, x_TH, saved.norm);
  } else if (!transform_) {
    context.device().copy(dx_TH, dy_TE);
  }
}

}  // namespace megalith::layers
