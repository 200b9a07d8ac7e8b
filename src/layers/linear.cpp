// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.h"

#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/column_sum.h"
#include "layers/adapter.h"
#include "layers/bias_rows.h"
#include "parallel/regions.h"

namespace megalith::layers {

using parameters::Declaration;
using parameters::Init;

namespace {

std::shared_ptr<const ProductFactors> factors_beside(parameters::ParameterSet& set,
                                                     const Partition& partition,
                                                     const FactoredProduct& product) {
  return partition.factors != nullptr ? (*partition.factors)(set, product) : nullptr;
}

/// Nothing for a product without bias.
ConstView value_of(const parameters::Parameter* bias) {
  return bias != nullptr ? ConstView(bias->compute()) : ConstView{};
}

}  // namespace

Declaration product_weights(const std::string& name, const Shape& shape, const Shard& shard,
                            double init_std, int canonical_shards, bool is_layer_product) {
  Declaration declaration{name + ".weight", shape, shard, Init{Init::Kind::normal, init_std},
                          canonical_shards};
  declaration.may_be_in_blocks = true;
  declaration.is_layer_product = is_layer_product;
  return declaration;
}

ColumnLinear::ColumnLinear(parameters::ParameterSet& set, const std::string& name,
                           const LinearConfig& config, const Partition& partition) {
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  Shard rows = partition.cut(weight, 0);
  int canonical_shards = partition.tensor_shards;
  if (config.grouped.are_shared(partition.tensor_shards)) {
    const parallel::SharedRows shared(config.grouped, partition.tensor_shards,
                                      partition.tensor_size, partition.tensor_rank);
    rows = shared.shard();
    canonical_shards = shared.equal_parts();
    by_shard_ = shared.by_shard();
    cut_.outputs = shared.runs();
  }
  weight_ =
      &set.declare(product_weights(name, weight, rows, config.init_std, canonical_shards, true));
  factors_ = factors_beside(set, partition, {*weight_, false, by_shard_});
  const int shards = exact_div(partition.tensor_shards, partition.tensor_size);
  if (cut_.outputs.empty()) cut_.outputs = equal_parts(local_outputs(), shards);
  cut_.inputs = equal_parts(config.inputs, 1);
  cut_.outputs_cut = partition.tensor_size > 1;
  if (!config.bias) return;
  bias_ = &set.declare({name + ".bias", bias, rows, Init{}, canonical_shards});
}

void ColumnLinear::forward(Context& context, const Batch& batch, ConstView x, View y_TO,
                           kernels::Activation activation, View pre_activation_TO,
                           InputCodes* keep) const {
  device::Tensor gathered;
  if (context.sequence) {
    gathered = context.workspace(x.dtype(), Shape{batch.num_tokens, x.size(1)});
    parallel::gather_rows_forward(context.exec, context.tensor, x, gathered, sequence_shard(batch),
                                  weight_->name());
  }
  const ConstView x_TI = context.sequence ? ConstView(gathered) : x;
  Product product(context, batch, *weight_, cut_);
  if (factors_ == nullptr && !is_adapted(context, batch, *weight_)) {
    return product.forward({.x_TI = x_TI,
                            .y_TO = y_TO,
                            .bias_O = value_of(bias_),
                            .activation = activation,
                            .pre_activation_TO = pre_activation_TO},
                           keep);
  }
  const View u_TO = pre_activation_TO.absent() ? y_TO : pre_activation_TO;
  const ConstView all_bias_O = value_of(bias_);
  for_each_bias(
      context, batch, *weight_, factors_.get(), all_bias_O, u_TO.size(0),
      [&](int64_t begin, int64_t count, ConstView bias_O) {
        product.forward(
            {.x_TI = x_TI.rows(begin, count), .y_TO = u_TO.rows(begin, count), .bias_O = bias_O},
            keep);
      });
  if (factors_ != nullptr) run_factors(context, batch, *factors_, x_TI, all_bias_O, u_TO);
  add_adapters(context, batch, *weight_, {.x_TI = x_TI, .y_TO = u_TO, .bias_O = all_bias_O});
  if (activation != kernels::Activation::none)
    kernels::activation_forward(context.exec, u_TO, y_TO, activation);
}

void ColumnLinear::weight_gradients(Context& context, const Product& product, ConstView db_TO,
                                    ConstView x_TI, const InputCodes* kept) const {
  if (weight_->trainable()) product.weight_gradient(x_TI, weight_->gradient_sum(), kept);
  if (bias_ == nullptr || !bias_->trainable()) return;
  kernels::column_sum(
      context.exec, {db_TO, bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()}), {}});
}

void ColumnLinear::backward_beside(Context& context, const Batch& batch, ConstView dy_TO,
                                   ConstView dz_TO, ConstView x_TI, View dx) const {
  if (factors_ == nullptr) return;
  if (factors_->reads_output()) {
    const device::Tensor z = context.workspace(dy_TO.dtype(), dy_TO.shape());
    Product(context, batch, *weight_, cut_)
        .forward({.x_TI = x_TI,
                  .y_TO = z,
                  .bias_O = factors_->comes_before_bias() ? ConstView{} : value_of(bias_)});
    factors_->add_output_gradients(context, batch, dy_TO, x_TI, z);
  }
  factors_->backward(context, batch, dz_TO, x_TI, dx);
}

void ColumnLinear::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x,
                            View dx, const InputCodes* kept) const {
  kernels::Exec& exec = context.exec;
  Product product(context, batch, *weight_, cut_);
  device::Tensor made;
  const ConstView dz_TO =
      factors_ == nullptr ? dy_TO : factors_->output_gradient(context, dy_TO, {}, made);
  product.set_output_gradient(dz_TO);
  const ConstView db_TO = comes_before_bias(factors_.get()) ? dy_TO : dz_TO;
  if (context.tensor.size() == 1) {
    weight_gradients(context, product, db_TO, x, kept);
    product.input_gradient({.dx_TI = dx, .k_shards = context.local_shards()}, by_shard_);
    return backward_beside(context, batch, dy_TO, dz_TO, x, dx);
  }
  // The gather runs under the product for dx, the sum over ranks under that for dw.
  device::Tensor gathered;
  parallel::PendingGather input;
  if (context.sequence) {
    gathered = context.workspace(x.dtype(), Shape{batch.num_tokens, x.size(1)});
    const device::NameScope again(context.device(), kGatheredAgain);
    input = parallel::start_gather_rows(exec, context.tensor, x, gathered, sequence_shard(batch),
                                        weight_->name());
  }
  const device::Tensor partial =
      context.workspace(context.accumulation, Shape{dy_TO.size(0), dx.size(1)});
  product.input_gradient_sums({.dx_TI = partial, .k_shards = context.local_shards()}, by_shard_);
  if (!context.sequence) {
    auto sum = parallel::start_tree_all_reduce(exec, context.tensor, partial, weight_->name());
    weight_gradients(context, product, db_TO, x, kept);
    parallel::finish(exec, context.tensor, std::move(sum));
    product.scale(partial);
    kernels::cast(exec, partial, dx);
    return backward_beside(context, batch, dy_TO, dz_TO, x, dx);
  }
  const device::Tensor own = context.workspace(context.accumulation, dx.shape());
  auto sum = parallel::start_scatter_rows(exec, context.tensor, partial, own, sequence_shard(batch),
                                          weight_->name());
  parallel::finish(exec, context.tensor, std::move(input));
  weight_gradients(context, product, db_TO, gathered, nullptr);
  parallel::finish(exec, context.tensor, std::move(sum));
  product.scale(own);
  kernels::cast(exec, own, dx);
  backward_beside(context, batch, dy_TO, dz_TO, gathered, dx);
}

RowLinear::RowLinear(parameters::ParameterSet& set, const std::string& name,
                     const LinearConfig& config, const Partition& partition) {
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  weight_ = &set.declare(product_weights(name, weight, partition.cut(weight, 1), config.init_std,
                                         partition.tensor_shards, true));
  factors_ = factors_beside(set, partition, {*weight_, true});
  const int shards = exact_div(partition.tensor_shards, partition.tensor_size);
  cut_.outputs = equal_parts(config.outputs, 1);
  cut_.inputs = equal_parts(local_inputs(), shards);
  cut_.inputs_cut = partition.tensor_size > 1;
  if (!config.bias) return;
  Declaration declaration{name + ".bias", bias, Shard::whole(bias), Init{}};
  declaration.gradient_partials = partition.token_partials;
  declaration.partials_over_tensor = partition.sequence;
  bias_ = &set.declare(declaration);
}

void RowLinear::forward(Context& context, const Batch& batch, ConstView given_TI, View y,
                        InputCodes* keep) const {
  kernels::Exec& exec = context.exec;
  device::Tensor made;
  const ConstView x_TI = factors_ != nullptr
                             ? factors_->input(context, given_TI, made)
                             : adapted_input(context, batch, *weight_, given_TI, made);
  Product product(context, batch, *weight_, cut_);
  const ConstView all_bias_O = value_of(bias_);
  const auto for_each_row = [&](const auto& body) {
    for_each_bias(context, batch, *weight_, factors_.get(), all_bias_O, y.size(0), body);
  };
  if (context.tensor.size() == 1) {
    for_each_row([&](int64_t begin, int64_t count, ConstView bias_O) {
      product.forward({.x_TI = x_TI.rows(begin, count),
                       .y_TO = y.rows(begin, count),
                       .k_shards = context.tensor_shards,
                       .bias_O = bias_O},
                      keep);
    });
    made = {};
    if (factors_ != nullptr) run_factors(context, batch, *factors_, given_TI, all_bias_O, y);
    return add_adapters(
        context, batch, *weight_,
        {.x_TI = given_TI, .y_TO = y, .bias_O = all_bias_O, .k_shards = context.tensor_shards});
  }
  const device::Tensor partial =
      context.workspace(context.accumulation, Shape{x_TI.size(0), y.size(1)});
  product.forward_sums({.x_TI = x_TI, .y_TO = partial, .k_shards = context.local_shards()}, keep);
  made = {};
  const auto finish = [&](View sum) {
    product.scale(sum);
    for_each_row([&](int64_t begin, int64_t count, ConstView bias_O) {
      store_with_bias(context, sum.rows(begin, count), bias_O, y.rows(begin, count));
    });
    if (factors_ != nullptr) run_factors(context, batch, *factors_, given_TI, all_bias_O, y);
  };
  if (!context.sequence) {
    parallel::reduce_forward(exec, context.tensor, partial, weight_->name());
    finish(partial);
    return add_adapters(context, batch, *weight_,
                        {.x_TI = given_TI,
                         .y_TO = y,
                         .bias_O = all_bias_O,
                         .k_shards = context.local_shards(),
                         .sums = true});
  }
  const device::Tensor own = context.workspace(context.accumulation, y.shape());
  parallel::scatter_rows_forward(exec, context.tensor, partial, own, sequence_shard(batch),
                                 weight_->name());
  finish(own);
}

device::Tensor RowLinear::output(Context& context, const Batch& batch, ConstView x_TI,
                                 DType dtype) const {
  const ConstView bias_O = comes_before_bias(factors_.get()) ? ConstView{} : value_of(bias_);
  Product product(context, batch, *weight_, cut_);
  device::Tensor z = context.workspace(dtype, Shape{x_TI.size(0), weight_->shape()[0]});
  if (context.tensor.size() == 1) {
    product.forward({.x_TI = x_TI, .y_TO = z, .k_shards = context.tensor_shards, .bias_O = bias_O});
    return z;
  }
  const device::Tensor sum = context.workspace(context.accumulation, z.view.shape());
  product.forward_sums({.x_TI = x_TI, .y_TO = sum, .k_shards = context.local_shards()});
  parallel::reduce_forward(context.exec, context.tensor, sum, weight_->name());
  product.scale(sum);
  store_with_bias(context, sum, bias_O, z);
  return z;
}

void RowLinear::backward(Context& context, const Batch& batch, ConstView dy, ConstView x_TI,
                         View dx_TI, const ActivatedFrom& from, const InputCodes* kept) const {
  kernels::Exec& exec = context.exec;
  device::Tensor gathered;
  parallel::PendingGather whole;
  if (context.sequence) {
    gathered = context.workspace(dy.dtype(), Shape{batch.num_tokens, dy.size(1)});
    whole = parallel::start_gather_rows(exec, context.tensor, dy, gathered, sequence_shard(batch),
                                        weight_->name());
  }
  if (bias_ != nullptr && bias_->trainable()) {
    const int partials = bias_->declaration().gradient_partials;
    const Shape rows{partials, bias_->local_elements()};
    kernels::column_sum(exec,
                        {dy, bias_->gradient_sum().reshape(rows), token_shards(batch, partials)});
  }
  if (context.sequence) parallel::finish(exec, context.tensor, std::move(whole));
  const ConstView dy_TO = context.sequence ? ConstView(gathered) : dy;
  device::Tensor made, z;
  const bool reads_output = factors_ != nullptr && factors_->reads_output();
  if (reads_output) z = output(context, batch, x_TI, dy_TO.dtype());
  const ConstView dz_TO =
      factors_ == nullptr ? dy_TO : factors_->output_gradient(context, dy_TO, z, made);
  Product product(context, batch, *weight_, cut_);
  product.set_output_gradient(dz_TO);
  if (weight_->trainable()) product.weight_gradient(x_TI, weight_->gradient_sum(), kept);
  if (factors_ == nullptr) {
    return product.input_gradient({.dx_TI = dx_TI,
                                   .pre_activation_TI = from.pre_activation_TI,
                                   .activation = from.activation});
  }
  product.input_gradient({.dx_TI = dx_TI});
  if (reads_output) factors_->add_output_gradients(context, batch, dy_TO, x_TI, z);
  factors_->backward(context, batch, dz_TO, x_TI, dx_TI);
  if (from.activation != kernels::Activation::none)
    kernels::activation_backward(exec, dx_TI, from.pre_activation_TI, dx_TI, from.activation);
}

}  // namespace megalith::layers
