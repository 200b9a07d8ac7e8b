// SPDX-License-Identifier: Apache-2.0
#include "heads/sequence_head.h"

#include <memory>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/span_loss.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/elementwise/squared_error.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"

namespace megalith::layers {
namespace {

/// From outputs to losses and, in the memory of the outputs, to their gradient.
struct LossCall {
  const Batch& batch;
  View y_UO;  // of question_answering [T, O]
  View loss_U;
  bool has_gradient = false;
  float z_loss = 0;
};

void class_losses(Context& context, const LossCall& call) {
  const int64_t units = call.y_UO.size(0);
  const DType sums = call.y_UO.dtype();
  const kernels::VocabRange classes{0, call.y_UO.size(1), 1};
  const ConstView targets = call.batch.targets_T;
  const device::Tensor max_U = context.workspace(sums, Shape{units});
  const device::Tensor sum_1U = context.workspace(sums, Shape{1, units});
  const device::Tensor target_U = context.workspace(sums, Shape{units});
  const View sum_U = sum_1U.view.reshape(Shape{units});
  kernels::cross_entropy_row_max(context.exec, {call.y_UO, classes, max_U});
  kernels::cross_entropy_exp_sums(context.exec, {.logits_RV = call.y_UO,
                                                 .vocab = classes,
                                                 .max_R = max_U,
                                                 .targets_R = targets,
                                                 .exps_RV = call.has_gradient ? call.y_UO : View{},
                                                 .sums_PR = sum_1U,
                                                 .target_R = target_U});
  kernels::cross_entropy_row_loss(
      context.exec,
      {.max_R = max_U, .sum_R = sum_U, .target_R = target_U, .loss_R = call.loss_U, .lse_R = {}});
  if (!call.has_gradient) return;
  kernels::cross_entropy_gradient(context.exec, {.exps_RV = call.y_UO,
                                                 .vocab = classes,
                                                 .max_R = max_U,
                                                 .sum_R = sum_U,
                                                 .targets_R = targets,
                                                 .weight_R = call.batch.loss_weight_T,
                                                 .scale = call.batch.loss_scale,
                                                 .z_loss = call.z_loss,
                                                 .dlogits_RV = call.y_UO});
}

void number_losses(Context& context, const LossCall& call) {
  const ConstView targets = call.batch.targets_T;
  kernels::squared_error(context.exec, {call.y_UO, targets, call.loss_U});
  if (!call.has_gradient) return;
  kernels::squared_error_gradient(context.exec, {.y_UO = call.y_UO,
                                                 .targets_UO = targets,
                                                 .weight_U = call.batch.loss_weight_T,
                                                 .scale = call.batch.loss_scale,
                                                 .dy_UO = call.y_UO});
}

void span_losses(Context& context, const LossCall& call) {
  kernels::span_loss(context.exec, {.y_TO = call.y_UO,
                                    .cu_seqlens = call.batch.cu_seqlens_device,
                                    .targets_UO = call.batch.targets_T,
                                    .weight_U = call.batch.loss_weight_T,
                                    .scale = call.batch.loss_scale,
                                    .z_loss = call.z_loss,
                                    .loss_U = call.loss_U,
                                    .dy_TO = call.has_gradient ? call.y_UO : View{}});
}

void losses(Context& context, HeadKind kind, const LossCall& call) {
  if (kind == HeadKind::sequence_regression) return number_losses(context, call);
  if (kind == HeadKind::question_answering) return span_losses(context, call);
  class_losses(context, call);
}

/// This rank's part of rows that every tensor rank has computed alike.
void take_own_rows(Context& context, const Batch& batch, ConstView whole_TH, View own) {
  const int64_t samples = batch.num_samples, part = own.num_elements() / samples;
  const ConstView rows = whole_TH.reshape(Shape{samples, whole_TH.num_elements() / samples});
  context.device().copy(own.reshape(Shape{samples, part}),
                        rows.columns(context.tensor.rank() * part, part));
}

/// For rows of sequences: all of them on every rank, in the type of sums.
Context rows_context(const Context& context) {
  Context rows = context;
  rows.activation = context.accumulation;
  rows.sequence = false;
  return rows;
}

/// Names the gather of the rows that a head reads.
constexpr std::string_view kGathered = "head.rows";

}  // namespace

/// One row for each unit, or each token of a head with outputs for tokens, and what becomes of it.
struct SequenceHead::Pooled {
  device::Tensor row_UH, dense_UH, y_UO;
  HeadRows transformed;
  HeadInputSaved saved;  // of the transform
  bool keep = false;
};

SequenceHead::SequenceHead(parameters::ParameterSet& set, const HeadConfig& config,
                           const Partition& partition)
    : Head(set, config, partition), spec_(config.spec) {
  const int64_t hidden = config.hidden;
  const double init_std = config.table.init_std;
  if (spec_.dense != HeadDense::none)
    dense_ = declare(set, config.name + ".dense", {hidden, hidden, true, init_std});
  // Rows of sequences are all on every rank: no partial rows of the norm's gradient.
  if (spec_.transform && !is_of_tokens()) {
    transform_.emplace(
        set,
        HeadInputConfig{
            .transform = spec_.transform, .hidden = hidden, .width = hidden, .init_std = init_std},
        Partition{});
  }
  if (spec_.kind == HeadKind::none) return;
  output_ = declare(set, config.name + ".output", {hidden, spec_.outputs, true, init_std});
}

SequenceHead::Product SequenceHead::declare(parameters::ParameterSet& set, const std::string& name,
                                            const LinearConfig& config) {
  using parameters::Init;
  const Shape weight{config.outputs, config.inputs}, bias{config.outputs};
  return {&set.declare({name + ".weight", weight, Shard::whole(weight),
                        Init{Init::Kind::normal, config.init_std}}),
          &set.declare({name + ".bias", bias, Shard::whole(bias), Init{}})};
}

void SequenceHead::Product::forward(Context& context, ConstView x_UI, View y_UO) const {
  kernels::linear_forward(
      context.exec,
      {.x_TI = x_UI, .w_OI = weight->compute(), .y_TO = y_UO, .bias_O = bias->compute()});
}

void SequenceHead::Product::backward(Context& context, ConstView dy_UO, ConstView x_UI,
                                     View dx_UI) const {
  const Shape row{1, bias->local_elements()};
  if (weight->trainable())  // (of f32: no pairs)
    kernels::linear_backward_weight(context.exec, {dy_UO, x_UI, weight->gradient_sum()});
  if (bias->trainable())
    kernels::column_sum(context.exec, {dy_UO, bias->gradient_sum().reshape(row), {}});
  kernels::linear_backward_input(context.exec,
                                 {.dy_TO = dy_UO, .w_OI = weight->compute(), .dx_TI = dx_UI});
}

ConstView SequenceHead::inner(Context& context, Pooled& pooled) const {
  const ConstView row_UH = pooled.row_UH;
  if (transform_) {
    Context of_rows = rows_context(context);
    pooled.transformed =
        transform_->forward(of_rows, {}, row_UH, pooled.keep ? &pooled.saved : nullptr, kGathered);
    return pooled.transformed.rows_TE();
  }
  if (spec_.dense == HeadDense::none) return row_UH;
  pooled.dense_UH = context.workspace(context.accumulation, row_UH.shape());
  dense_.forward(context, row_UH, pooled.dense_UH);
  if (spec_.dense == HeadDense::tanh) kernels::softcap(context.exec, pooled.dense_UH, 1, 1);
  context.inspect("dense", pooled.dense_UH);
  return pooled.dense_UH;
}

/// dinner_UH is used up.
void SequenceHead::inner_backward(Context& context, const Pooled& pooled, View dinner_UH,
                                  View dpooled_UH) const {
  if (transform_) {
    Context of_rows = rows_context(context);
    return transform_->backward(of_rows, {}, dinner_UH, pooled.row_UH, pooled.saved, dpooled_UH);
  }
  if (spec_.dense == HeadDense::tanh)
    kernels::softcap_backward(context.exec, dinner_UH, pooled.dense_UH, dinner_UH, 1, 1);
  dense_.backward(context, dinner_UH, pooled.row_UH, dpooled_UH);
}

SequenceHead::Pooled SequenceHead::pooled(Context& context, const Batch& batch, ConstView h_TH,
                                          int64_t units, bool keep) const {
  MEGA_CHECK(spec_.kind != HeadKind::none, "outputs of a model without a head");
  const DType sums = context.accumulation;
  if (is_of_tokens()) units = h_TH.size(0);
  Pooled pooled;
  pooled.keep = keep;
  pooled.row_UH = context.workspace(sums, Shape{units, h_TH.size(1)});
  if (is_of_tokens()) {
    kernels::cast(context.exec, h_TH, pooled.row_UH);
  } else {
    kernels::pool_rows_forward(context.exec,
                               {h_TH, batch.cu_seqlens_device, pooled.row_UH, spec_.pooling});
  }
  context.inspect("pooled", pooled.row_UH);
  const ConstView rows = inner(context, pooled);
  pooled.y_UO = context.workspace(sums, Shape{units, spec_.outputs});
  output_.forward(context, rows, pooled.y_UO);
  context.inspect("outputs", pooled.y_UO);
  return pooled;
}

void SequenceHead::forward(Context& context, const Batch& batch, ConstView x_TH,
                           View loss_U) const {
  const device::NameScope scope(context.device(), "head");
  const HeadRows rows = input().forward(context, batch, x_TH, nullptr, kGathered);
  const Pooled made = pooled(context, batch, rows.rows_TE(), loss_U.size(0));
  losses(context, spec_.kind, {batch, made.y_UO, loss_U});
}

void SequenceHead::outputs(Context& context, const Batch& batch, ConstView x_TH, View y_UO) const {
  const device::NameScope scope(context.device(), "head");
  const HeadRows rows = input().forward(context, batch, x_TH, nullptr, kGathered);
  const Pooled made = pooled(context, batch, rows.rows_TE(), y_UO.size(0));
  context.device().copy(y_UO, made.y_UO.view);
}

void SequenceHead::forward_backward(Context& context, const Batch& batch, ConstView x_TH,
                                    float z_loss, View loss_U, View dx_TH) const {
  const device::NameScope scope(context.device(), "head");
  HeadInputSaved saved;
  const HeadRows rows = input().forward(context, batch, x_TH, &saved, kGathered);
  const Pooled made = pooled(context, batch, rows.rows_TE(), loss_U.size(0), true);
  losses(context, spec_.kind, {batch, made.y_UO, loss_U, true, z_loss});
  context.inspect("outputs_gradient", made.y_UO);
  const device::Tensor dh = context.workspace(context.activation, x_TH.shape());
  input_gradient(context, batch, made, dh);
  input().backward(context, batch, dh, x_TH, saved, dx_TH);
  context.inspect("input_gradient", dx_TH);
}

void SequenceHead::input_gradient(Context& context, const Batch& batch, const Pooled& pooled,
                                  View dh) const {
  const DType sums = context.accumulation;
  const device::Tensor gradient_UH = context.workspace(sums, pooled.row_UH.view.shape());
  if (spec_.dense == HeadDense::none && !transform_) {
    output_.backward(context, pooled.y_UO, pooled.row_UH, gradient_UH);
  } else {
    const device::Tensor inner_UH = context.workspace(sums, pooled.row_UH.view.shape());
    output_.backward(context, pooled.y_UO,
                     transform_ ? pooled.transformed.rows_TE() : ConstView(pooled.dense_UH),
                     inner_UH);
    inner_backward(context, pooled, inner_UH, gradient_UH);
  }
  const auto spread = [&](View dx_TH) {
    if (is_of_tokens()) return kernels::cast(context.exec, gradient_UH, dx_TH);
    kernels::pool_rows_backward(context.exec,
                                {gradient_UH, batch.cu_seqlens_device, dx_TH, spec_.pooling});
  };
  if (!context.sequence) return spread(dh);
  const device::Tensor whole_TH =
      context.workspace(context.activation, Shape{batch.num_tokens, dh.size(1)});
  spread(whole_TH);
  take_own_rows(context, batch, whole_TH, dh);
}

}  // namespace megalith::layers
