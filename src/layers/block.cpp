// SPDX-License-Identifier: Apache-2.0
#include "layers/block.h"

#include <fmt/format.h>

namespace megalith::layers {

Block::Block(parameters::ParameterSet& set, int64_t number, int64_t cache_layer,
             const BlockConfig& config, const Partition& partition)
    : materialised_(config.attention.materialised),
      number_(number),
      cache_layer_(cache_layer),
      name_(fmt::format("layers.{}", number)),
      norm_1_(set, name_ + ".norm_1", config.hidden, config.norm_eps, partition),
      attention_(set, name_ + ".attention", config.attention, partition),
      norm_2_(set, name_ + ".norm_2", config.hidden, config.norm_eps, partition),
      mlp_(set, name_ + ".mlp", config.hidden, config.ffn, config.activation, config.init_std,
           config.output_init_std, partition) {}

void Block::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                    BlockSaved* saved, Recompute recompute) const {
  const device::NameScope scope(context.device(), name_);
  BlockSaved* const keep = recompute == Recompute::full ? nullptr : saved;
  const bool keep_outputs = keep != nullptr && (recompute == Recompute::none || materialised_);
  const DType dtype = context.activation;
  const Shape shape = x_TH.shape();
  // Where a value goes that is kept in some modes only.
  const auto place = [&](bool kept, device::Tensor* slot, device::Tensor& passing) -> View {
    device::Tensor& where = kept ? *slot : passing;
    where = kept ? context.saved(dtype, shape) : context.workspace(dtype, shape);
    return where;
  };
  device::Tensor passing_x1;
  const View x1 = place(keep != nullptr, keep != nullptr ? &keep->x1_TH : nullptr, passing_x1);
  {
    const device::NameScope part(context.device(), "attention");
    device::Tensor passing;
    const View h = place(keep_outputs, keep_outputs ? &keep->h1_TH : nullptr, passing);
    norm_1_.forward(context, x_TH, h, keep != nullptr ? &keep->norm_1 : nullptr);
    context.inspect("norm_1", h);
    attention_.forward(context, batch, batch.cache != nullptr ? cache_layer_ : number_, h, x1,
                       keep != nullptr ? &keep->attention : nullptr, recompute == Recompute::none);
    if (keep != nullptr) keep->paper_mask_1 = context.paper_mask(shape);
    kernels::residual_dropout_forward(
        context.exec, {x1, x_TH, x1, context.row_dropout(batch, number_, DropoutSite::attention)});
    context.inspect("residual", x1);
  }
  const device::NameScope part(context.device(), "mlp");
  device::Tensor passing;
  const View h = place(keep_outputs, keep_outputs ? &keep->h2_TH : nullptr, passing);
  norm_2_.forward(context, x1, h, keep != nullptr ? &keep->norm_2 : nullptr);
  context.inspect("norm_2", h);
  mlp_.forward(context, batch, h, y_TH, keep != nullptr ? &keep->mlp : nullptr, keep_outputs);
  if (keep != nullptr) keep->paper_mask_2 = context.paper_mask(shape);
  kernels::residual_dropout_forward(
      context.exec, {y_TH, x1, y_TH, context.row_dropout(batch, number_, DropoutSite::mlp)});
  context.inspect("residual", y_TH);
}

void Block::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                     BlockSaved& saved, Recompute recompute, View dx_TH) const {
  const device::NameScope scope(context.device(), name_);
  if (recompute == Recompute::full) {
    const device::Tensor y = context.workspace(context.activation, x_TH.shape());
    forward(context, batch, x_TH, y, &saved, Recompute::none);
  }
  const device::Tensor dx1 = context.workspace(context.activation, x_TH.shape());
  mlp_backward(context, batch, dy_TH, saved, dx1);
  attention_backward(context, batch, dx1, x_TH, saved, dx_TH);
}

namespace {

/// The gradient of what went into drop(): dy itself without dropout, else a buffer.
ConstView undo_dropout(Context& context, const Batch& batch, int64_t layer, DropoutSite site,
                       ConstView dy_TH, device::Tensor& buffer) {
  if (context.dropout == 0) return dy_TH;
  buffer = context.workspace(context.activation, dy_TH.shape());
  kernels::residual_dropout_backward(context.exec,
                                     {dy_TH, buffer, context.row_dropout(batch, layer, site)});
  return buffer;
}

/// A norm's output, from what was kept or made again.
ConstView norm_output(Context& context, const Norm& norm, ConstView x_TH, ConstView kept,
                      device::Tensor& buffer) {
  if (!kept.absent()) return kept;
  buffer = context.workspace(context.activation, x_TH.shape());
  norm.recompute(context, x_TH, buffer);
  return buffer;
}

}  // namespace

void Block::mlp_backward(Context& context, const Batch& batch, ConstView dy_TH,
                         const BlockSaved& saved, View dx_TH) const {
  const device::NameScope part(context.device(), "mlp");
  const device::Tensor dh = context.workspace(context.activation, dy_TH.shape());
  {
    device::Tensor undropped, again;
    const ConstView dout =
        undo_dropout(context, batch, number_, DropoutSite::mlp, dy_TH, undropped);
    const ConstView h = norm_output(context, norm_2_, saved.x1_TH, saved.h2_TH, again);
    mlp_.backward(context, batch, dout, h, saved.mlp, dh);
  }
  norm_2_.backward(context, batch, dh, saved.x1_TH, saved.norm_2, dy_TH, dx_TH);
  context.inspect("input_gradient", dx_TH);
}

void Block::attention_backward(Context& context, const Batch& batch, ConstView dy_TH,
                               ConstView x_TH, const BlockSaved& saved, View dx_TH) const {
  const device::NameScope part(context.device(), "attention");
  const device::Tensor dh = context.workspace(context.activation, dy_TH.shape());
  {
    device::Tensor undropped, again;
    const ConstView dout =
        undo_dropout(context, batch, number_, DropoutSite::attention, dy_TH, undropped);
    const ConstView h = norm_output(context, norm_1_, x_TH, saved.h1_TH, again);
    attention_.backward(context, batch, number_, dout, h, saved.attention, dh);
  }
  norm_1_.backward(context, batch, dh, x_TH, saved.norm_1, dy_TH, dx_TH);
  context.inspect("input_gradient", dx_TH);
}

}  // namespace megalith::layers
