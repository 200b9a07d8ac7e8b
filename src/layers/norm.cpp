// SPDX-License-Identifier: Apache-2.0
#include "layers/norm.h"

#include "kernels/norm/layer_norm.h"

namespace megalith::layers {

parameters::Declaration norm_weight(const std::string& name, int64_t width, const NormSpec& spec) {
  using parameters::Init;
  const Shape shape{width};
  return {name + ".weight", shape, Shard::whole(shape),
          Init{spec.offset == 0 ? Init::Kind::ones : Init::Kind::zeros}};
}

Norm::Norm(parameters::ParameterSet& set, const std::string& name, int64_t hidden,
           const NormSpec& spec, const Partition& partition)
    : kind_(spec.kind),
      eps_(static_cast<float>(spec.eps)),
      offset_(static_cast<float>(spec.offset)) {
  parameters::Declaration weight = norm_weight(name, hidden, spec);
  weight.gradient_partials = partition.token_partials;
  weight.partials_over_tensor = partition.sequence;
  weight_ = &set.declare(weight);
  if (spec.kind == NormKind::rms || !spec.bias) return;
  parameters::Declaration bias = weight;
  bias.name = name + ".bias";
  bias.init = {};
  bias_ = &set.declare(bias);
}

void Norm::forward(Context& context, ConstView x_TH, View y_TH, NormSaved* saved) const {
  View mean, rstd;
  if (saved != nullptr) {
    if (kind_ == NormKind::layer)
      saved->mean_T = context.saved(context.accumulation, Shape{x_TH.size(0)});
    saved->rstd_T = context.saved(context.accumulation, Shape{x_TH.size(0)});
    mean = saved->mean_T;
    rstd = saved->rstd_T;
  }
  kernels::layer_norm_forward(
      context.exec, {.x_TH = x_TH,
                     .gamma_H = weight_->compute(),
                     .beta_H = bias_ != nullptr ? ConstView(bias_->compute()) : ConstView{},
                     .y_TH = y_TH,
                     .mean_T = mean,
                     .rstd_T = rstd,
                     .eps = eps_,
                     .kind = kind_,
                     .gamma_offset = offset_});
}

void Norm::recompute(Context& context, ConstView x_TH, View y_TH) const {
  forward(context, x_TH, y_TH, nullptr);
}

void Norm::backward(Context& context, const Batch& batch, const NormGradients& gradients,
                    ConstView x_TH, const NormSaved& saved) const {
  const int partials = weight_->declaration().gradient_partials;
  const Shape rows{partials, weight_->local_elements()};
  const auto sum_of = [&](const parameters::Parameter* parameter) {
    const bool sums = parameter != nullptr && parameter->trainable();
    return sums ? parameter->gradient_sum().reshape(rows) : View{};
  };
  kernels::layer_norm_backward(context.exec, {.dy_TH = gradients.dy_TH,
                                              .x_TH = x_TH,
                                              .gamma_H = weight_->compute(),
                                              .mean_T = saved.mean_T,
                                              .rstd_T = saved.rstd_T,
                                              .dx_TH = gradients.dx_TH,
                                              .residual_gradient_TH = gradients.residual_TH,
                                              .dgamma_PH = sum_of(weight_),
                                              .dbeta_PH = sum_of(bias_),
                                              .shards = token_shards(batch, partials),
                                              .kind = kind_,
                                              .gamma_offset = offset_});
}

}  // namespace megalith::layers
