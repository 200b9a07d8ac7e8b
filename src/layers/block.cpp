// SPDX-License-Identifier: Apache-2.0
#include "layers/block.h"

#include <fmt/format.h>

namespace megalith::layers {

Block::Block(parameters::ParameterSet& set, const LayerPlace& place, const BlockConfig& config,
             const Partition& partition)
    : is_parallel_(config.spec.parallel),
      materialised_(config.spec.attention.materialised),
      name_(fmt::format("layers.{}", place.in_model)),
      attention_path_(set, name_ + ".norm_1",
                      {config.spec, config.hidden, place.in_model, DropoutSite::attention},
                      partition),
      attention_(set, name_ + ".attention", place,
                 {config.spec.attention, config.spec.norm, config.hidden, config.context,
                  config.init_std, config.output_init_std},
                 partition),
      mlp_path_(set, name_ + ".norm_2",
                {config.spec, config.hidden, place.in_model, DropoutSite::mlp}, partition),
      mlp_(set, name_ + ".mlp",
           {config.spec.mlp, config.hidden, config.init_std, config.output_init_std}, partition) {}

void Block::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                    BlockSaved* saved, Recompute recompute) const {
  const device::NameScope scope(context.device(), name_);
  BlockSaved* const keep = recompute == Recompute::full ? nullptr : saved;
  const bool keep_outputs = recompute == Recompute::none || materialised_;
  const auto place_stream = [&](bool kept, device::Tensor* where) {
    if (!kept) return context.workspace(context.activation, x_TH.shape());
    *where = context.saved(context.activation, x_TH.shape());
    return device::Tensor{{}, where->view};
  };
  device::Tensor x1 =
      place_stream(keep != nullptr && !is_parallel_, keep != nullptr ? &keep->x1_TH : nullptr);
  {
    const device::NameScope part(context.device(), "attention");
    attention_path_.forward(context, batch, {x_TH, x_TH, x1},
                            keep != nullptr ? &keep->attention_path : nullptr, keep_outputs,
                            [&](ConstView h_TH, View o_TH) {
                              attention_.forward(context, batch, h_TH, o_TH,
                                                 keep != nullptr ? &keep->attention : nullptr,
                                                 recompute == Recompute::none);
                            });
  }
  const device::NameScope part(context.device(), "mlp");
  mlp_path_.forward(context, batch, {is_parallel_ ? x_TH : ConstView(x1), x1, y_TH},
                    keep != nullptr ? &keep->mlp_path : nullptr, keep_outputs,
                    [&](ConstView h_TH, View o_TH) {
                      mlp_.forward(context, batch, h_TH, o_TH,
                                   keep != nullptr ? &keep->mlp : nullptr, keep_outputs);
                    });
}

void Block::backward(Context& context, const Batch& batch, const BlockGradients& gradients,
                     ConstView x_TH, BlockSaved& saved, Recompute recompute) const {
  const device::NameScope scope(context.device(), name_);
  if (recompute == Recompute::full) {
    const device::Tensor y = context.workspace(context.activation, x_TH.shape());
    forward(context, batch, x_TH, y, &saved, Recompute::none);
  }
  const ConstView dy_TH = gradients.dy_TH;
  const device::Tensor dx1 = context.workspace(context.activation, x_TH.shape());
  {
    const device::NameScope part(context.device(), "mlp");
    const ConstView x1_TH = saved.x1_TH;
    mlp_path_.backward(context, batch, {dy_TH, dy_TH, dx1}, is_parallel_ ? x_TH : x1_TH,
                       saved.mlp_path, [&](ConstView do_TH, ConstView h_TH, View dh_TH) {
                         mlp_.backward(context, batch, do_TH, h_TH, saved.mlp, dh_TH);
                       });
  }
  const device::NameScope part(context.device(), "attention");
  attention_path_.backward(
      context, batch, {is_parallel_ ? dy_TH : ConstView(dx1), dx1, gradients.dx_TH}, x_TH,
      saved.attention_path, [&](ConstView do_TH, ConstView h_TH, View dh_TH) {
        attention_.backward(context, batch, do_TH, h_TH, saved.attention, dh_TH);
      });
}

}  // namespace megalith::layers
