// SPDX-License-Identifier: Apache-2.0
#include "models/block.h"

namespace megalith::layers {

Block::Block(parameters::ParameterSet& set, const LayerPlace& place, const BlockConfig& config,
             const Partition& partition)
    : is_parallel_(config.spec.parallel),
      materialised_(config.spec.attention.materialised),
      name_(place.name),
      attention_path_(set, name_ + ".norm_1",
                      {config.spec, config.hidden, place.in_model, DropoutSite::attention},
                      partition),
      attention_(set, name_ + ".attention", place,
                 {config.spec.attention, config.spec.norm, config.hidden, config.context,
                  config.init_std, config.output_init_std, config.relative},
                 partition),
      cross_(make_cross(set, place, config, partition)),
      mlp_path_(set, name_ + ".norm_2",
                {config.spec, config.hidden, place.in_model, DropoutSite::mlp}, partition),
      mlp_(set, name_ + ".mlp",
           {config.spec.mlp, config.hidden, config.init_std, config.output_init_std}, partition) {}

std::optional<Block::CrossHalf> Block::make_cross(parameters::ParameterSet& set,
                                                  const LayerPlace& place,
                                                  const BlockConfig& config,
                                                  const Partition& partition) {
  if (!config.spec.cross) return std::nullopt;
  MEGA_CHECK(!config.spec.parallel, "a parallel block with cross attention");
  return CrossHalf{
      Residual(set, place.name + ".norm_cross",
               {config.spec, config.hidden, place.in_model, DropoutSite::cross}, partition),
      CrossAttention(set, place.name + ".cross", place,
                     {*config.spec.cross, config.spec.norm, config.hidden, config.context,
                      config.init_std, config.output_init_std},
                     partition)};
}

void Block::forward_cross(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                          BlockSaved* keep, Recompute recompute) const {
  const device::NameScope part(context.device(), "cross");
  cross_->path.forward(
      context, batch, {x_TH, x_TH, y_TH}, keep != nullptr ? &keep->cross_path : nullptr,
      recompute == Recompute::none || cross_->attention.is_materialised() ? InputKept::numbers
                                                                          : InputKept::made_again,
      [&](ConstView h_TH, View o_TH) {
        cross_->attention.forward(context, batch, h_TH, o_TH,
                                  keep != nullptr ? &keep->cross : nullptr,
                                  recompute == Recompute::none);
      });
}

void Block::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                    BlockSaved* saved, Recompute recompute) const {
  const device::NameScope scope(context.device(), name_);
  BlockSaved* const keep = recompute == Recompute::full ? nullptr : saved;
  const bool keep_outputs = recompute == Recompute::none || materialised_;
  const auto kept_of = [&](const Residual& path, InputKept kept) {
    if (keep == nullptr || !keep_outputs) return InputKept::made_again;
    return path.has_norm_before() ? kept : InputKept::numbers;
  };
  const InputKept kept_1 = kept_of(attention_path_, attention_.input_kept(context));
  const InputKept kept_2 = kept_of(mlp_path_, mlp_.input_kept(context));
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
                            keep != nullptr ? &keep->attention_path : nullptr, kept_1,
                            [&](ConstView h_TH, View o_TH) {
                              attention_.forward(context, batch, h_TH, o_TH,
                                                 keep != nullptr ? &keep->attention : nullptr,
                                                 recompute == Recompute::none, kept_1);
                            });
  }
  if (cross_) {
    device::Tensor x2 = place_stream(keep != nullptr, keep != nullptr ? &keep->x2_TH : nullptr);
    forward_cross(context, batch, x1, x2, keep, recompute);
    x1 = std::move(x2);
  }
  const device::NameScope part(context.device(), "mlp");
  mlp_path_.forward(context, batch, {is_parallel_ ? x_TH : ConstView(x1), x1, y_TH},
                    keep != nullptr ? &keep->mlp_path : nullptr, kept_2,
                    [&](ConstView h_TH, View o_TH) {
                      mlp_.forward(context, batch, h_TH, o_TH,
                                   keep != nullptr ? &keep->mlp : nullptr, keep_outputs, kept_2);
                    });
}

/// In place: the gradient of the stream behind cross attention becomes that before it.
void Block::backward_cross(Context& context, const Batch& batch, View dx_TH,
                           const BlockSaved& saved) const {
  const device::NameScope part(context.device(), "cross");
  cross_->path.backward(context, batch, {dx_TH, dx_TH, dx_TH}, saved.x1_TH, saved.cross_path,
                        [&](ConstView do_TH, ConstView h_TH, View dh_TH) {
                          cross_->attention.backward(context, batch, do_TH, h_TH, saved.cross,
                                                     dh_TH);
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
    const ConstView x1_TH = cross_ ? saved.x2_TH : saved.x1_TH;
    mlp_path_.backward(context, batch, {dy_TH, dy_TH, dx1}, is_parallel_ ? x_TH : x1_TH,
                       saved.mlp_path, [&](ConstView do_TH, ConstView h_TH, View dh_TH) {
                         mlp_.backward(context, batch, do_TH, h_TH, saved.mlp, dh_TH);
                       });
  }
  if (cross_) backward_cross(context, batch, dx1, saved);
  const device::NameScope part(context.device(), "attention");
  attention_path_.backward(
      context, batch, {is_parallel_ ? dy_TH : ConstView(dx1), dx1, gradients.dx_TH}, x_TH,
      saved.attention_path, [&](ConstView do_TH, ConstView h_TH, View dh_TH) {
        attention_.backward(context, batch, do_TH, h_TH, saved.attention, dh_TH);
      });
}

}  // namespace megalith::layers
