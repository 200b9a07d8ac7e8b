// SPDX-License-Identifier: Apache-2.0
#include "layers/head_norm.h"

#include "layers/norm.h"

namespace megalith::layers {

HeadNorm::HeadNorm(parameters::ParameterSet& set, const std::string& name, int64_t head_dim,
                   const NormSpec& spec, const Partition& partition)
    : kind_(spec.kind),
      eps_(static_cast<float>(spec.eps)),
      offset_(static_cast<float>(spec.offset)) {
  parameters::Declaration weight = norm_weight(name, head_dim, spec);
  weight.gradient_partials = exact_div(partition.tensor_shards, partition.tensor_size);
  weight.partials_over_tensor = partition.tensor_size > 1;
  weight_ = &set.declare(weight);
}

void HeadNorm::forward(Context& context, kernels::ConstHeadsView x_TND, kernels::HeadsView y_TND,
                       HeadNormSaved* saved) const {
  View mean, rstd;
  if (saved != nullptr) {
    const Shape shape{x_TND.num_rows, x_TND.num_heads};
    if (kind_ == NormKind::layer) saved->mean_TN = context.saved(context.accumulation, shape);
    saved->rstd_TN = context.saved(context.accumulation, shape);
    mean = saved->mean_TN;
    rstd = saved->rstd_TN;
  }
  kernels::head_norm_forward(context.exec, {.x_TND = x_TND,
                                            .gamma_D = weight_->compute(),
                                            .y_TND = y_TND,
                                            .mean_TN = mean,
                                            .rstd_TN = rstd,
                                            .eps = eps_,
                                            .kind = kind_,
                                            .gamma_offset = offset_});
}

void HeadNorm::backward(Context& context, kernels::HeadsView dy_TND, kernels::ConstHeadsView x_TND,
                        const HeadNormSaved& saved, bool counts) const {
  const int64_t partials = weight_->declaration().gradient_partials, size = x_TND.head_size;
  View dgamma;
  if (counts && weight_->trainable())
    dgamma = weight_->gradient_sum().reshape(Shape{partials, size});
  if (!dgamma.absent() && x_TND.num_heads < partials) {
    const int64_t shards = exact_div(partials, x_TND.num_heads);  // of a head
    dgamma = View(dgamma.data(), dgamma.dtype(), Shape{x_TND.num_heads, size}, shards * size);
  }
  kernels::head_norm_backward(context.exec, {.dy_TND = dy_TND,
                                             .x_TND = x_TND,
                                             .gamma_D = weight_->compute(),
                                             .mean_TN = saved.mean_TN,
                                             .rstd_TN = saved.rstd_TN,
                                             .dx_TND = dy_TND,
                                             .dgamma_PD = dgamma,
                                             .kind = kind_,
                                             .gamma_offset = offset_});
}

}  // namespace megalith::layers
