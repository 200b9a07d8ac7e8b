// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.h"

#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"
#include "parallel/canonical.h"

namespace megalith::layers {

using parameters::Declaration;
using parameters::Init;

ColumnLinear::ColumnLinear(parameters::ParameterSet& set, const std::string& name, int64_t inputs,
                           int64_t outputs, double init_std, const Partition& partition) {
  const Shape weight{outputs, inputs}, bias{outputs};
  weight_ = &set.declare({name + ".weight", weight, partition.cut(weight, 0),
                          Init{Init::Kind::normal, init_std}, partition.tensor_shards});
  bias_ =
      &set.declare({name + ".bias", bias, partition.cut(bias, 0), Init{}, partition.tensor_shards});
}

void ColumnLinear::forward(Context& context, ConstView x_TI, View y_TO,
                           kernels::Activation activation, View pre_activation_TO) const {
  kernels::linear_forward(context.exec, {.x_TI = x_TI,
                                         .w_OI = weight_->compute(),
                                         .y_TO = y_TO,
                                         .bias_O = bias_->compute(),
                                         .activation = activation,
                                         .pre_activation_TO = pre_activation_TO});
}

void ColumnLinear::backward(Context& context, ConstView dy_TO, ConstView x_TI, View dx_TI) const {
  kernels::linear_backward_weight(context.exec, {dy_TO, x_TI, weight_->gradient_sum()});
  kernels::column_sum(
      context.exec, {dy_TO, bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()}), {}});
  if (context.tensor.size() == 1) {
    kernels::linear_backward_input(context.exec, {.dy_TO = dy_TO,
                                                  .w_OI = weight_->compute(),
                                                  .dx_TI = dx_TI,
                                                  .k_shards = context.tensor_shards});
    return;
  }
  const device::Tensor partial = context.workspace(context.accumulation, dx_TI.shape());
  kernels::linear_backward_input(context.exec, {.dy_TO = dy_TO,
                                                .w_OI = weight_->compute(),
                                                .dx_TI = partial,
                                                .k_shards = context.local_shards()});
  parallel::tree_all_reduce(context.exec, context.tensor, partial, weight_->name());
  kernels::cast(context.exec, partial, dx_TI);
}

RowLinear::RowLinear(parameters::ParameterSet& set, const std::string& name, int64_t inputs,
                     int64_t outputs, double init_std, const Partition& partition) {
  const Shape weight{outputs, inputs}, bias{outputs};
  weight_ = &set.declare({name + ".weight", weight, partition.cut(weight, 1),
                          Init{Init::Kind::normal, init_std}, partition.tensor_shards});
  Declaration declaration{name + ".bias", bias, Shard::whole(bias), Init{}};
  declaration.gradient_partials = partition.token_partials;
  bias_ = &set.declare(declaration);
}

void RowLinear::forward(Context& context, ConstView x_TI, View y_TO) const {
  if (context.tensor.size() == 1) {
    kernels::linear_forward(context.exec, {.x_TI = x_TI,
                                           .w_OI = weight_->compute(),
                                           .y_TO = y_TO,
                                           .k_shards = context.tensor_shards,
                                           .bias_O = bias_->compute()});
    return;
  }
  const device::Tensor partial = context.workspace(context.accumulation, y_TO.shape());
  kernels::linear_forward(context.exec, {.x_TI = x_TI,
                                         .w_OI = weight_->compute(),
                                         .y_TO = partial,
                                         .k_shards = context.local_shards()});
  parallel::tree_all_reduce(context.exec, context.tensor, partial, weight_->name());
  kernels::add(context.exec, partial, bias_->compute().repeated(y_TO.size(0)), y_TO);
}

void RowLinear::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI,
                         View dx_TI, kernels::Activation activation,
                         ConstView pre_activation_TI) const {
  kernels::linear_backward_weight(context.exec, {dy_TO, x_TI, weight_->gradient_sum()});
  const int partials = bias_->declaration().gradient_partials;
  kernels::column_sum(
      context.exec, {dy_TO, bias_->gradient_sum().reshape(Shape{partials, bias_->local_elements()}),
                     token_shards(batch, partials)});
  kernels::linear_backward_input(context.exec, {.dy_TO = dy_TO,
                                                .w_OI = weight_->compute(),
                                                .dx_TI = dx_TI,
                                                .pre_activation_TI = pre_activation_TI,
                                                .activation = activation});
}

}  // namespace megalith::layers
