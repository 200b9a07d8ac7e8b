// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.h"

#include <algorithm>
#include <numeric>

#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/column_sum.h"
#include "layers/adapter.h"
#include "parallel/regions.h"

namespace megalith::layers {

using parameters::Declaration;
using parameters::Init;

namespace {

/// Rows of groups that several tensor shards share, as this rank holds them: whole groups, or parts
/// of one.
class SharedRows {
 public:
  SharedRows(const GroupedRows& rows, const Partition& partition)
      : rows_(rows),
        per_group_(exact_div<int64_t>(partition.tensor_shards, rows.groups)),
        ranks_(std::max<int64_t>(1, partition.tensor_size / rows.groups)),
        groups_(std::max<int64_t>(1, rows.groups / partition.tensor_size)),
        first_group_(partition.tensor_rank * groups_ / ranks_),
        part_(partition.tensor_rank % ranks_) {
    MEGA_CHECK(groups_ * partition.tensor_size == rows.groups * ranks_,
               "{} tensor ranks share {} groups", partition.tensor_size, rows.groups);
    MEGA_CHECK(rows.first % per_group_ == 0 && rows.second % per_group_ == 0,
               "{} tensor shards share groups of {} and {} rows", per_group_, rows.first,
               rows.second);
  }

  Shard shard() const {
    const int64_t begin = first_group_ * (rows_.first + rows_.second);
    if (ranks_ == 1) return {0, begin, groups_ * (rows_.first + rows_.second)};
    const int64_t first = rows_.first / ranks_, second = rows_.second / ranks_;
    return {0, begin + part_ * first, first, begin + rows_.first + part_ * second, second};
  }
  /// So many that both ranges of a shard are whole numbers of them.
  int equal_parts() const {
    const int64_t part = std::gcd(rows_.first / per_group_, rows_.second / per_group_);
    return static_cast<int>(rows_.groups * (rows_.first + rows_.second) / part);
  }
  /// The runs of a shard, one after another as they lie here.
  std::vector<Range> runs() const {
    const int64_t shards = per_group_ / ranks_;
    const int64_t first = rows_.first / per_group_, second = rows_.second / per_group_;
    std::vector<Range> runs;
    int64_t at = 0;
    for (int64_t group = 0; group < groups_; ++group) {
      for (const int64_t rows : {first, second}) {
        for (int64_t s = 0; s < shards; ++s, at += rows) runs.push_back({at, at + rows});
      }
    }
    return runs;
  }
  std::vector<ShardRun> by_shard() const {
    const int64_t shards = per_group_ / ranks_;  // of a group, here
    if (shards == 1) return {};
    const int64_t first = rows_.first / per_group_, second = rows_.second / per_group_;
    std::vector<ShardRun> runs;
    int64_t at = 0;
    for (int64_t group = 0; group < groups_; ++group) {
      const int64_t begin = group * shards * (first + second);
      for (int64_t s = 0; s < shards; ++s) {
        runs.push_back({begin + s * first, first, at});
        runs.push_back({begin + shards * first + s * second, second, at + first});
        at += first + second;
      }
    }
    return runs;
  }

 private:
  GroupedRows rows_;
  int64_t per_group_;    // shards of a group
  int64_t ranks_;        // that share a group
  int64_t groups_;       // that a rank has something of
  int64_t first_group_;  // here
  int64_t part_;         // of the group, here
};

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
    const SharedRows shared(config.grouped, partition);
    rows = shared.shard();
    canonical_shards = shared.equal_parts();
    by_shard_ = shared.by_shard();
    cut_.outputs = shared.runs();
  }
  weight_ =
      &set.declare(product_weights(name, weight, rows, config.init_std, canonical_shards, true));
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
  const bool adapted = is_adapted(context, batch, *weight_);
  Product(context, batch, *weight_, cut_)
      .forward({.x_TI = context.sequence ? ConstView(gathered) : x,
                .y_TO = y_TO,
                .bias_O = value_of(bias_),
                .activation = adapted ? kernels::Activation::none : activation,
                .pre_activation_TO = adapted ? View{} : pre_activation_TO},
               keep);
  if (!adapted) return;
  MEGA_CHECK(pre_activation_TO.absent(), "adapters are for inference");
  add_adapters(context, batch, *weight_, {.x_TI = x, .y_TO = y_TO});
  if (activation != kernels::Activation::none)
    kernels::activation_forward(context.exec, y_TO, y_TO, activation);
}

void ColumnLinear::weight_gradients(Context& context, const Product& product, ConstView dy_TO,
                                    ConstView x_TI, const InputCodes* kept) const {
  if (weight_->trainable()) product.weight_gradient(x_TI, weight_->gradient_sum(), kept);
  if (bias_ == nullptr || !bias_->trainable()) return;
  kernels::column_sum(
      context.exec, {dy_TO, bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()}), {}});
}

void ColumnLinear::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x,
                            View dx, const InputCodes* kept) const {
  kernels::Exec& exec = context.exec;
  Product product(context, batch, *weight_, cut_);
  product.set_output_gradient(dy_TO);
  if (context.tensor.size() == 1) {
    weight_gradients(context, product, dy_TO, x, kept);
    return product.input_gradient({.dx_TI = dx, .k_shards = context.local_shards()}, by_shard_);
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
    weight_gradients(context, product, dy_TO, x, kept);
    parallel::finish(exec, context.tensor, std::move(sum));
    product.scale(partial);
    return kernels::cast(exec, partial, dx);
  }
  const device::Tensor own = context.workspace(context.accumulation, dx.shape());
  auto sum = parallel::start_scatter_rows(exec, context.tensor, partial, own, sequence_shard(batch),
                                          weight_->name());
  parallel::finish(exec, context.tensor, std::move(input));
  weight_gradients(context, product, dy_TO, gathered, nullptr);
  parallel::finish(exec, context.tensor, std::move(sum));
  product.scale(own);
  kernels::cast(exec, own, dx);
}

RowLinear::RowLinear(parameters::ParameterSet& set, const std::string& name,
                     const LinearConfig& config, const Partition& partition) {
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  weight_ = &set.declare(product_weights(name, weight, partition.cut(weight, 1), config.init_std,
                                         partition.tensor_shards, true));
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

void RowLinear::forward(Context& context, const Batch& batch, ConstView x_TI, View y,
                        InputCodes* keep) const {
  kernels::Exec& exec = context.exec;
  Product product(context, batch, *weight_, cut_);
  if (context.tensor.size() == 1) {
    product.forward(
        {.x_TI = x_TI, .y_TO = y, .k_shards = context.tensor_shards, .bias_O = value_of(bias_)},
        keep);
    return add_adapters(context, batch, *weight_,
                        {.x_TI = x_TI, .y_TO = y, .k_shards = context.tensor_shards});
  }
  const device::Tensor partial =
      context.workspace(context.accumulation, Shape{x_TI.size(0), y.size(1)});
  product.forward_sums({.x_TI = x_TI, .y_TO = partial, .k_shards = context.local_shards()}, keep);
  const auto finish = [&](View sum) {
    product.scale(sum);
    if (bias_ == nullptr) return kernels::cast(exec, sum, y);
    kernels::add(exec, sum, bias_->compute().view.repeated(y.size(0)), y);
  };
  if (!context.sequence) {
    parallel::reduce_forward(exec, context.tensor, partial, weight_->name());
    finish(partial);
    return add_adapters(
        context, batch, *weight_,
        {.x_TI = x_TI, .y_TO = y, .k_shards = context.local_shards(), .sums = true});
  }
  const device::Tensor own = context.workspace(context.accumulation, y.shape());
  parallel::scatter_rows_forward(exec, context.tensor, partial, own, sequence_shard(batch),
                                 weight_->name());
  finish(own);
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
  Product product(context, batch, *weight_, cut_);
  product.set_output_gradient(dy_TO);
  if (weight_->trainable()) product.weight_gradient(x_TI, weight_->gradient_sum(), kept);
  product.input_gradient(
      {.dx_TI = dx_TI, .pre_activation_TI = from.pre_activation_TI, .activation = from.activation});
}

}  // namespace megalith::layers
