// SPDX-License-Identifier: Apache-2.0
#include "low_rank/factor_pair.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/elementwise/dropout.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/low_rank_blocks.h"
#include "parallel/regions.h"

namespace megalith::low_rank {
namespace {

using layers::Batch;
using layers::Context;
using parameters::Declaration;
using parameters::Init;

/// The variance is that of PEFT's, which draws uniformly within 1 / sqrt(inputs).
Init first_init(int64_t inputs) {
  return {Init::Kind::normal, 1 / std::sqrt(3 * static_cast<double>(inputs))};
}

device::Tensor scaled(Context& context, ConstView x, float factor) {
  device::Tensor y = context.workspace(x.dtype(), x.shape());
  kernels::cast(context.exec, x, y);
  if (factor != 1) kernels::scale(context.exec, y, factor);
  return y;
}

/// y += h factor: of all tokens, or where y has only the rank's own, of those.
void add(Context& context, const Batch& batch, ConstView h, ConstView factor,
         const std::vector<kernels::LowRankBlock>& blocks, View y) {
  const int64_t rank = h.size(1);
  const bool is_whole = y.size(0) == h.size(0);
  const int64_t parts = is_whole ? 1 : batch.num_samples;
  const int64_t own = exact_div(y.size(0), parts), all = exact_div(h.size(0), parts);
  const int64_t begin = is_whole ? 0 : context.tensor.rank() * own;
  for (int64_t part = 0; part < parts;) {
    kernels::LowRankRuns runs;
    for (; part < parts && runs.count < kernels::kMostLowRankRuns; ++part) {
      runs.run[runs.count++] = {.begin = part * own,
                                .count = own,
                                .first = (part * all + begin) * rank,
                                .rank = rank,
                                .factor = factor,
                                .blocks = blocks};
    }
    kernels::low_rank_add(context.exec, {h.reshape(Shape{h.num_elements()}), y, runs});
  }
}

}  // namespace

FactorPair::FactorPair(parameters::ParameterSet& set, const layers::FactoredProduct& product,
                       const ProductRanks& ranks, const FactoredProducts& all, DType dtype)
    : is_row_(product.is_row),
      scale_(static_cast<float>(all.scale)),
      dropout_(static_cast<float>(all.dropout)),
      by_shard_(product.by_shard) {
  const Declaration& weight = product.weight.declaration();
  const int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  const Shard whole = Shard::whole(weight.shape);
  const std::vector<Range> local = outputs_of(ranks.by_output, is_row_ ? whole : weight.shard);
  blocks_ = kernels::blocks_of(local);
  runs_ = column_runs(local);
  const int64_t packed = kernels::packed_rank(kernels::blocks_of(ranks.by_output));
  const Shape a{ranks.rank, inputs}, b{packed, outputs};
  Declaration first{first_factor(weight.name), a, is_row_ ? weight.shard : Shard::whole(a),
                    first_init(inputs), is_row_ ? weight.canonical_shards : 1};
  Declaration second{second_factor(weight.name), b, Shard::whole(b), Init{},
                     is_row_ ? 1 : weight.canonical_shards};
  if (!is_row_) {
    second.shard = weight.shard;
    second.shard.dim = 1;
  }
  first.format = second.format = plain_format(dtype);
  first.is_added = second.is_added = true;
  channel_begin_ = is_row_ ? weight.shard.begin : 0;
  a_ = &set.declare(std::move(first));
  b_ = &set.declare(std::move(second));
  // Of a product that is one module there are no zeros.
  const bool is_one = runs_.size() == 1 && runs_[0].ranks == ranks.rank && runs_[0].step == 1 &&
                      runs_[0].count == b_->local_shape()[1];
  if (is_one) {
    runs_.clear();
    blocks_.clear();
  }
}

void FactorPair::forward(Context& context, const Batch& batch, ConstView x_TI, View y) const {
  const device::Tensor h = project(context, batch, x_TI);
  add(context, batch, h, scaled(context, b_->compute(), scale_), blocks_, y);
}

void FactorPair::backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI,
                          View dx) const {
  const device::Tensor dh = gradient_of_h(context, dy_TO);
  if (b_->trainable()) {
    const device::Tensor h = project(context, batch, x_TI);
    if (scale_ != 1) kernels::scale(context.exec, h, scale_);
    add_second_gradient(context, h, dy_TO);
  }
  if (a_->trainable()) {
    const device::Tensor dropped = drop(context, batch, x_TI);
    const ConstView read = dropped.view.absent() ? x_TI : ConstView(dropped);
    kernels::linear_backward_weight(context.exec, {dh, read, a_->gradient_sum(), {}, {}});
  }
  if (!drops(context)) return add(context, batch, dh, a_->compute(), {}, dx);
  const device::Tensor more = context.workspace(DType::f32, dx.shape());
  kernels::fill(context.exec, more, 0);
  add(context, batch, dh, a_->compute(), {}, more);
  kernels::dropout_backward(context.exec, {more, more, dropout(context, batch)});
  kernels::add(context.exec, dx, more, dx);
}

device::Tensor FactorPair::scaled_second(Context& context) const {
  device::Tensor packed = scaled(context, b_->compute(), scale_);
  device::Tensor whole = spread(context, packed);
  return whole.view.absent() ? std::move(packed) : std::move(whole);
}

/// Steps have keys; what only reads has none.
bool FactorPair::drops(const Context& context) const {
  return dropout_ > 0 && context.step_key != 0;
}

kernels::Dropout FactorPair::dropout(const Context& context, const Batch& batch) const {
  MEGA_CHECK(!context.sequence, "dropout of what factors read, of parts of the tokens");
  return {dropout_, random_key(context.step_key, a_->name()), batch.own.sample_T,
          batch.own.sample_position_T, channel_begin_};
}

device::Tensor FactorPair::drop(Context& context, const Batch& batch, ConstView x_TI) const {
  if (!drops(context)) return {};
  device::Tensor dropped = context.workspace(x_TI.dtype(), x_TI.shape());
  kernels::dropout_forward(context.exec, {x_TI, dropped, dropout(context, batch)});
  return dropped;
}

device::Tensor FactorPair::project(Context& context, const Batch& batch, ConstView x_TI) const {
  const device::Tensor dropped = drop(context, batch, x_TI);
  device::Tensor h = context.workspace(context.accumulation, Shape{x_TI.size(0), a_->shape()[0]});
  kernels::linear_forward(context.exec, {.x_TI = dropped.view.absent() ? x_TI : ConstView(dropped),
                                         .w_OI = a_->compute(),
                                         .y_TO = h,
                                         .k_shards = is_row_ ? context.local_shards() : 1});
  if (is_row_ && context.tensor.size() > 1)
    parallel::reduce_forward(context.exec, context.tensor, h, a_->name());
  return h;
}

device::Tensor FactorPair::gradient_of_h(Context& context, ConstView dy_TO) const {
  const device::Tensor packed = scaled(context, b_->compute(), scale_);
  const device::Tensor whole = spread(context, packed);
  ConstView b_RO = whole.view.absent() ? packed.view : whole.view, dy = dy_TO;
  device::Tensor b_by_shard, dy_by_shard;
  if (!by_shard_.empty()) {
    b_by_shard = context.workspace(b_RO.dtype(), b_RO.shape());
    dy_by_shard = context.workspace(dy_TO.dtype(), dy_TO.shape());
    for (const ShardRun& run : by_shard_) {
      context.device().copy(b_by_shard.view.columns(run.local, run.count),
                            b_RO.columns(run.begin, run.count));
      context.device().copy(dy_by_shard.view.columns(run.local, run.count),
                            dy_TO.columns(run.begin, run.count));
    }
    b_RO = b_by_shard;
    dy = dy_by_shard;
  }
  device::Tensor dh = context.workspace(context.accumulation, Shape{dy.size(0), b_RO.size(0)});
  kernels::linear_forward(context.exec, {.x_TI = dy,
                                         .w_OI = Weight(b_RO),
                                         .y_TO = dh,
                                         .k_shards = is_row_ ? 1 : context.local_shards()});
  if (!is_row_ && context.tensor.size() > 1)
    parallel::reduce_forward(context.exec, context.tensor, dh, b_->name());
  return dh;
}

device::Tensor FactorPair::spread(Context& context, ConstView packed_PO) const {
  if (runs_.empty()) return {};
  device::Tensor b_RO =
      context.workspace(packed_PO.dtype(), Shape{a_->shape()[0], packed_PO.size(1)});
  spread_columns(context.exec, packed_PO, b_RO, runs_);
  return b_RO;
}

void FactorPair::add_second_gradient(Context& context, ConstView h_TR, ConstView dy_TO) const {
  const View sum_PO = b_->gradient_sum();
  const device::Tensor whole = spread(context, sum_PO);
  kernels::linear_backward_weight(context.exec,
                                  {h_TR, dy_TO, whole.view.absent() ? sum_PO : whole.view, {}, {}});
  if (!whole.view.absent()) gather_columns(context.exec, whole, sum_PO, runs_);
}

}  // namespace megalith::low_rank
