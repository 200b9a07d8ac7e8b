// SPDX-License-Identifier: Apache-2.0
#include "layers/residual.h"

#include "kernels/elementwise/pointwise.h"

namespace megalith::layers {

Residual::Residual(parameters::ParameterSet& set, const std::string& name,
                   const ResidualConfig& config, const Partition& partition)
    : place_(config.layer.norm_place),
      scale_(static_cast<float>(config.layer.residual_scale)),
      number_(config.number),
      site_(config.site),
      norm_name_(name.substr(name.rfind('.') + 1)) {
  const bool before = place_ == NormPlace::pre || place_ == NormPlace::both;
  const bool none = config.site == DropoutSite::attention && !config.layer.attention_norm;
  if (before && !none) norm_in_.emplace(set, name, config.hidden, config.layer.norm, partition);
  if (place_ == NormPlace::pre) return;
  norm_out_.emplace(set, before ? name + "_out" : name, config.hidden, config.layer.norm,
                    partition);
}

/// o_TH = base + drop(scale o).
void Residual::add_to_stream(Context& context, const Batch& batch, ConstView base_TH,
                             View o_TH) const {
  if (scale_ != 1) kernels::scale(context.exec, o_TH, scale_);
  kernels::residual_dropout_forward(
      context.exec, {o_TH, base_TH, o_TH, context.row_dropout(batch, number_, site_)});
}

void Residual::forward(Context& context, const Batch& batch, const Stream& stream,
                       ResidualSaved* saved, InputKept kept_h, Sublayer sublayer) const {
  if (saved != nullptr) saved->kept_h = kept_h;
  const ConstView x_TH = stream.x_TH, base_TH = stream.base_TH;
  const View y_TH = stream.y_TH;
  const auto place = [&](bool kept, device::Tensor& where) -> View {
    where = kept ? context.saved(context.activation, x_TH.shape())
                 : context.workspace(context.activation, x_TH.shape());
    return where;
  };
  device::Tensor passing_h, passing_o;
  ConstView h = x_TH;
  if (norm_in_) {
    const bool kept = saved != nullptr && kept_h == InputKept::numbers;
    const View normed = place(kept, kept ? saved->h_TH : passing_h);
    norm_in_->forward(context, x_TH, normed, saved != nullptr ? &saved->norm_in : nullptr);
    context.inspect(norm_name_, normed);
    h = normed;
  }
  View o = y_TH;
  if (norm_out_) o = place(saved != nullptr, saved != nullptr ? saved->o_TH : passing_o);
  sublayer(h, o);
  NormSaved* const statistics = saved != nullptr ? &saved->norm_out : nullptr;
  if (place_ == NormPlace::post) {
    add_to_stream(context, batch, base_TH, o);
    norm_out_->forward(context, o, y_TH, statistics);
  } else {
    if (norm_out_) norm_out_->forward(context, o, y_TH, statistics);
    add_to_stream(context, batch, base_TH, y_TH);
  }
  context.inspect("residual", y_TH);
}

/// The gradient of what went into drop(): dy itself without dropout and scale, else a buffer.
ConstView Residual::undo_dropout(Context& context, const Batch& batch, ConstView dy_TH,
                                 device::Tensor& buffer) const {
  if (context.dropout == 0 && scale_ == 1) return dy_TH;
  buffer = context.workspace(context.activation, dy_TH.shape());
  kernels::residual_dropout_backward(context.exec,
                                     {dy_TH, buffer, context.row_dropout(batch, number_, site_)});
  if (scale_ != 1) kernels::scale(context.exec, buffer, scale_);
  return buffer;
}

void Residual::backward(Context& context, const Batch& batch, const StreamGradients& gradients,
                        ConstView x_TH, const ResidualSaved& saved,
                        SublayerBackward sublayer) const {
  const ConstView dy_TH = gradients.dy_TH;
  const View dx_TH = gradients.dx_TH;
  const device::Tensor dh = context.workspace(context.activation, dy_TH.shape());
  device::Tensor dsum;  // post: the gradient of the sum that the norm reads
  {
    device::Tensor undropped, again, dnormed;
    ConstView dout = dy_TH;
    if (place_ == NormPlace::post) {
      dsum = context.workspace(context.activation, dy_TH.shape());
      norm_out_->backward(context, batch, {.dy_TH = dy_TH, .dx_TH = dsum}, saved.o_TH,
                          saved.norm_out);
      dout = dsum;
    }
    dout = undo_dropout(context, batch, dout, undropped);
    if (norm_out_ && place_ != NormPlace::post) {
      dnormed = context.workspace(context.activation, dy_TH.shape());
      norm_out_->backward(context, batch, {.dy_TH = dout, .dx_TH = dnormed}, saved.o_TH,
                          saved.norm_out);
      dout = dnormed;
    }
    ConstView h = norm_in_ ? ConstView(saved.h_TH) : x_TH;
    const bool is_made_again = h.absent() && saved.kept_h != InputKept::codes;
    if (is_made_again || (h.absent() && context.may_fall_back()))
      again = context.workspace(context.activation, x_TH.shape());
    if (is_made_again) {
      norm_in_->recompute(context, x_TH, again);
      h = again;
    }
    sublayer(dout, h, dh);
  }
  const ConstView passing = place_ == NormPlace::post ? ConstView(dsum) : gradients.dbase_TH;
  if (norm_in_) {
    norm_in_->backward(context, batch, {dh, passing, dx_TH}, x_TH, saved.norm_in);
  } else {
    kernels::add(context.exec, dh, passing, dx_TH);
  }
  context.inspect("input_gradient", dx_TH);
}

}  // namespace megalith::layers
