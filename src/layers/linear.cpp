// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.h"

#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"
#include "parallel/regions.h"

namespace megalith::layers {

using parameters::Declaration;
using parameters::Init;

namespace {

/// Nothing for a product without bias.
ConstView value_of(const parameters::Parameter* bias) {
  return bias != nullptr ? bias->compute() : ConstView{};
}

}  // namespace

ColumnLinear::ColumnLinear(parameters::ParameterSet& set, const std::string& name,
                           const LinearConfig& config, const Partition& partition) {
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  weight_ = &set.declare({name + ".weight", weight, partition.cut(weight, 0),
                          Init{Init::Kind::normal, config.init_std}, partition.tensor_shards});
  if (!config.bias) return;
  bias_ =
      &set.declare({name + ".bias", bias, partition.cut(bias, 0), Init{}, partition.tensor_shards});
}

void ColumnLinear::forward(Context& context, const Batch& batch, ConstView x, View y_TO,
                           kernels::Activation activation, View pre_activation_TO) const {
  device::Tensor gathered;
  if (context.sequence) {
    gathered = context.workspace(x.dtype(), Shape{batch.num_tokens, x.size(1)});
    parallel::gather_rows_forward(context.exec, context.tensor, x, gathered, row_parts(batch),
                                  weight_->name());
  }
  kernels::linear_forward(context.exec, {.x_TI = context.sequence ? ConstView(gathered) : x,
                                         .w_OI = weight_->compute(),
                                         .y_TO = y_TO,
                                         .bias_O = value_of(bias_),
                                         .activation = activation,
                                         .pre_activation_TO = pre_activation_TO});
}

void ColumnLinear::weight_gradients(Context& context, ConstView dy_TO, ConstView x_TI) const {
  kernels::linear_backward_weight(context.exec, {dy_TO, x_TI, weight_->gradient_sum()});
  if (bias_ == nullptr) return;
  kernels::column_sum(
      context.exec, {dy_TO, bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()}), {}});
}

void ColumnLinear::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x,
                            View dx) const {
  kernels::Exec& exec = context.exec;
  if (context.tensor.size() == 1) {
    weight_gradients(context, dy_TO, x);
    kernels::linear_backward_input(exec, {.dy_TO = dy_TO,
                                          .w_OI = weight_->compute(),
                                          .dx_TI = dx,
                                          .k_shards = context.tensor_shards});
    return;
  }
  // The gather runs under the product for dx, the sum over ranks under that for dw.
  device::Tensor gathered;
  parallel::PendingGather input;
  if (context.sequence) {
    gathered = context.workspace(x.dtype(), Shape{batch.num_tokens, x.size(1)});
    const device::NameScope again(context.device(), kGatheredAgain);
    input = parallel::start_gather_rows(exec, context.tensor, x, gathered, row_parts(batch),
                                        weight_->name());
  }
  const device::Tensor partial =
      context.workspace(context.accumulation, Shape{dy_TO.size(0), dx.size(1)});
  kernels::linear_backward_input(exec, {.dy_TO = dy_TO,
                                        .w_OI = weight_->compute(),
                                        .dx_TI = partial,
                                        .k_shards = context.local_shards()});
  if (!context.sequence) {
    auto sum = parallel::start_tree_all_reduce(exec, context.tensor, partial, weight_->name());
    weight_gradients(context, dy_TO, x);
    parallel::finish(exec, context.tensor, std::move(sum));
    return kernels::cast(exec, partial, dx);
  }
  const device::Tensor own = context.workspace(context.accumulation, dx.shape());
  auto sum = parallel::start_scatter_rows(exec, context.tensor, partial, own, row_parts(batch),
                                          weight_->name());
  parallel::finish(exec, context.tensor, std::move(input));
  weight_gradients(context, dy_TO, gathered);
  parallel::finish(exec, context.tensor, std::move(sum));
  kernels::cast(exec, own, dx);
}

RowLinear::RowLinear(parameters::ParameterSet& set, const std::string& name,
                     const LinearConfig& config, const Partition& partition) {
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  weight_ = &set.declare({name + ".weight", weight, partition.cut(weight, 1),
                          Init{Init::Kind::normal, config.init_std}, partition.tensor_shards});
  if (!config.bias) return;
  Declaration declaration{name + ".bias", bias, Shard::whole(bias), Init{}};
  declaration.gradient_partials = partition.token_partials;
  declaration.partials_over_tensor = partition.sequence;
  bias_ = &set.declare(declaration);
}

void RowLinear::forward(Context& context, const Batch& batch, ConstView x_TI, View y) const {
  kernels::Exec& exec = context.exec;
  if (context.tensor.size() == 1) {
    kernels::linear_forward(exec, {.x_TI = x_TI,
                                   .w_OI = weight_->compute(),
                                   .y_TO = y,
                                   .k_shards = context.tensor_shards,
                                   .bias_O = value_of(bias_)});
    return;
  }
  const device::Tensor partial =
      context.workspace(context.accumulation, Shape{x_TI.size(0), y.size(1)});
  kernels::linear_forward(exec, {.x_TI = x_TI,
                                 .w_OI = weight_->compute(),
                                 .y_TO = partial,
                                 .k_shards = context.local_shards()});
  const auto finish = [&](ConstView sum) {
    if (bias_ == nullptr) return kernels::cast(exec, sum, y);
    kernels::add(exec, sum, bias_->compute().repeated(y.size(0)), y);
  };
  if (!context.sequence) {
    parallel::reduce_forward(exec, context.tensor, partial, weight_->name());
    return finish(partial);
  }
  const device::Tensor own = context.workspace(context.accumulation, y.shape());
  parallel::scatter_rows_forward(exec, context.tensor, partial, own, row_parts(batch),
                                 weight_->name());
  finish(own);
}

void RowLinear::backward(Context& context, const Batch& batch, ConstView dy, ConstView x_TI,
                         View dx_TI, kernels::Activation activation,
                         ConstView pre_activation_TI) const {
  kernels::Exec& exec = context.exec;
  device::Tensor gathered;
  parallel::PendingGather whole;
  if (context.sequence) {
    gathered = context.workspace(dy.dtype(), Shape{batch.num_tokens, dy.size(1)});
    whole = parallel::start_gather_rows(exec, context.tensor, dy, gathered, row_parts(batch),
                                        weight_->name());
  }
  if (bias_ != nullptr) {
    const int partials = bias_->declaration().gradient_partials;
    const Shape rows{partials, bias_->local_elements()};
    kernels::column_sum(exec,
                        {dy, bias_->gradient_sum().reshape(rows), token_shards(batch, partials)});
  }
  if (context.sequence) parallel::finish(exec, context.tensor, std::move(whole));
  const ConstView dy_TO = context.sequence ? ConstView(gathered) : dy;
  kernels::linear_backward_weight(exec, {dy_TO, x_TI, weight_->gradient_sum()});
  kernels::linear_backward_input(exec, {.dy_TO = dy_TO,
                                        .w_OI = weight_->compute(),
                                        .dx_TI = dx_TI,
                                        .pre_activation_TI = pre_activation_TI,
                                        .activation = activation});
}

}  // namespace megalith::layers
