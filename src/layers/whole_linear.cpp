// SPDX-License-Identifier: Apache-2.0
#include "layers/whole_linear.h"

#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"
#include "layers/widened.h"
#include "parallel/regions.h"

namespace megalith::layers {

WholeLinear::WholeLinear(parameters::ParameterSet& set, const std::string& name,
                         const LinearConfig& config) {
  using parameters::Init;
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  weight_ = &set.declare(product_weights(name, weight, Shard::whole(weight), config.init_std));
  if (config.bias) bias_ = &set.declare({name + ".bias", bias, Shard::whole(bias), Init{}});
}

void WholeLinear::forward(Context& context, ConstView x_TI, View y_TO) const {
  device::Tensor numbers;
  kernels::linear_forward(context.exec,
                          {.x_TI = x_TI,
                           .w_OI = as_numbers(context.exec, *weight_, numbers),
                           .y_TO = y_TO,
                           .bias_O = bias_ != nullptr ? ConstView(bias_->compute()) : ConstView{}});
}

void WholeLinear::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI,
                           View dx_TI) const {
  kernels::Exec& exec = context.exec;
  device::Tensor all_dy, all_x;
  ConstView dy = dy_TO, x = x_TI;
  if (context.sequence) {
    const auto gather = [&](ConstView own, device::Tensor& all) -> ConstView {
      all = context.workspace(own.dtype(), Shape{batch.num_tokens, own.size(1)});
      parallel::gather_rows_forward(exec, context.tensor, own, all, sequence_shard(batch),
                                    weight_->name());
      return all;
    };
    dy = gather(dy_TO, all_dy);
    x = gather(x_TI, all_x);
  }
  if (weight_->trainable())
    kernels::linear_backward_weight(exec, {dy, x, weight_->gradient_sum(), batch.cu_seqlens});
  if (bias_ != nullptr && bias_->trainable()) {
    const Shape row{1, bias_->local_elements()};
    kernels::column_sum(exec, {dy, bias_->gradient_sum().reshape(row), {}});
  }
  device::Tensor numbers;
  kernels::linear_backward_input(
      exec, {.dy_TO = dy_TO, .w_OI = as_numbers(context.exec, *weight_, numbers), .dx_TI = dx_TI});
}

}  // namespace megalith::layers
