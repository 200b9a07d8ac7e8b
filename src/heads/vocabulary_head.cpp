// SPDX-License-Identifier: Apache-2.0
#include "heads/vocabulary_head.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "heads/chosen_rows.h"
#include "heads/compared_answers.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/row_runs.h"
#include "kernels/reduction/column_sum.h"
#include "kernels/reduction/tree_sum.h"
#include "layers/linear.h"
#include "layers/widened.h"
#include "parallel/regions.h"

namespace megalith::layers {
namespace {

/// Logits of one chunk take at most about this much (twice with a softcap); enough rows to keep the
/// products efficient.
constexpr int64_t kLogitsBytes = int64_t{50} << 20;

/// The gradient of the logits in their memory, stored like every gradient of an activation (so
/// that both factors of the two products that follow have one type): 16 bits take the first half of
/// each row.
View gradient_in_place(const View& logits_RV, DType activation) {
  if (!is_half(activation)) return logits_RV;
  return {logits_RV.data(), activation, logits_RV.shape(), 2 * logits_RV.row_stride()};
}

}  // namespace

/// Rows of a batch that are worked on at once.
struct VocabularyHead::Rows {
  Weight w_VE;
  ConstView h_RH, targets_R;
  View loss_R;
  int64_t most_rows = 0;  // of any chunk: what buffers hold
  // Of training.
  bool has_gradient = false;
  ConstView weight_R = {};
  float loss_scale = 1;
  float z_loss = 0;
};

/// One chunk of R rows, and its buffers.
struct VocabularyHead::Chunk {
  View logits_RV, max_R, sum_R, target_R;
  View exps_RV;  // apart from the logits where the gradient needs both: with a softcap
  kernels::VocabRange vocab;
  std::vector<device::Tensor> memory;
  View exps() const { return exps_RV.absent() ? logits_RV : exps_RV; }
};

VocabularyHead::VocabularyHead(parameters::ParameterSet& set, const HeadConfig& config,
                               const Partition& partition)
    : Head(set, config, partition),
      vocab_(config.table.vocab),
      padded_vocab_(config.table.padded_vocab),
      weight_(config.tied),
      tied_(config.tied != nullptr),
      scale_(static_cast<float>(config.spec.scale)),
      softcap_(static_cast<float>(config.spec.softcap)) {
  using parameters::Init;
  const TokenTable& table = config.table;
  const Shape shape{table.padded_vocab, table.width}, column{table.padded_vocab};
  if (weight_ == nullptr) {
    parameters::Declaration declaration = product_weights("head", shape, partition.cut(shape, 0),
                                                          table.init_std, partition.tensor_shards);
    declaration.init.zero_rows_from = table.vocab;
    weight_ = &set.declare(std::move(declaration));
  }
  if (config.spec.bias) {
    bias_ = &set.declare(
        {"head.bias", column, partition.cut(column, 0), Init{}, partition.tensor_shards});
  }
}

int64_t VocabularyHead::chunk_rows() const {
  const int64_t rows = kLogitsBytes / (weight_->local_shape()[0] * bytes_of(DType::f32));
  return std::clamp<int64_t>(rows / kLossRowMultiple * kLossRowMultiple, kLossRowMultiple, 4096);
}

void VocabularyHead::finish_logits(Context& context, View logits_RV) const {
  if (softcap_ > 0) return kernels::softcap(context.exec, logits_RV, scale_, softcap_);
  if (scale_ != 1) kernels::scale(context.exec, logits_RV, scale_);
}

View VocabularyHead::weight_gradient() const { return weight_->gradient_sum(tied_ ? 1 : 0); }

void VocabularyHead::chunk_losses(Context& context, const Rows& of, Chunk& chunk) const {
  kernels::Exec& exec = context.exec;
  const int64_t rows = of.h_RH.size(0);
  const DType sums = context.accumulation;
  const int local_shards = context.local_shards();
  const int64_t local_vocab = weight_->local_shape()[0];
  const auto buffer = [&](const Shape& most) {
    return chunk.memory.emplace_back(context.workspace(sums, most)).view.rows(0, rows);
  };
  chunk.vocab = {weight_->declaration().shard.begin, vocab_, local_shards};
  chunk.logits_RV = buffer(Shape{of.most_rows, local_vocab});
  chunk.max_R = buffer(Shape{of.most_rows});
  chunk.sum_R = buffer(Shape{of.most_rows});
  chunk.target_R = buffer(Shape{of.most_rows});
  kernels::linear_forward(
      exec, {.x_TI = of.h_RH, .w_OI = of.w_VE, .y_TO = chunk.logits_RV, .bias_O = bias()});
  finish_logits(context, chunk.logits_RV);
  if (of.has_gradient && softcap_ > 0) chunk.exps_RV = buffer(Shape{of.most_rows, local_vocab});
  context.inspect("logits", chunk.logits_RV);
  kernels::cross_entropy_row_max(exec, {chunk.logits_RV, chunk.vocab, chunk.max_R});
  if (context.tensor.size() > 1) {
    context.tensor.wait(context.tensor.start_all_reduce_max(chunk.max_R, "loss.max"));
  }
  const device::Tensor partials = context.workspace(sums, Shape{local_shards * of.most_rows});
  const View sums_PR =
      partials.view.rows(0, local_shards * rows).reshape(Shape{local_shards, rows});
  kernels::cross_entropy_exp_sums(exec, {.logits_RV = chunk.logits_RV,
                                         .vocab = chunk.vocab,
                                         .max_R = chunk.max_R,
                                         .targets_R = of.targets_R,
                                         .exps_RV = of.has_gradient ? chunk.exps() : View{},
                                         .sums_PR = sums_PR,
                                         .target_R = chunk.target_R});
  kernels::tree_sum(exec, {sums_PR, chunk.sum_R});
  if (context.tensor.size() > 1) {
    parallel::tree_all_reduce(exec, context.tensor, chunk.sum_R, "loss.sum");
    parallel::tree_all_reduce(exec, context.tensor, chunk.target_R, "loss.target");
  }
  kernels::cross_entropy_row_loss(exec, {.max_R = chunk.max_R,
                                         .sum_R = chunk.sum_R,
                                         .target_R = chunk.target_R,
                                         .loss_R = of.loss_R,
                                         .lse_R = {}});
}

/// The gradient of the chunk's logits, in its memory.
View VocabularyHead::chunk_gradient(Context& context, const Rows& of, const Chunk& chunk) const {
  const View dlogits = gradient_in_place(chunk.exps(), context.activation);
  kernels::cross_entropy_gradient(context.exec,
                                  {.exps_RV = chunk.exps(),
                                   .vocab = chunk.vocab,
                                   .max_R = chunk.max_R,
                                   .sum_R = chunk.sum_R,
                                   .targets_R = of.targets_R,
                                   .weight_R = of.weight_R,
                                   .scale = of.loss_scale,
                                   .z_loss = of.z_loss,
                                   .dlogits_RV = dlogits,
                                   .logits_scale = scale_,
                                   .softcap = softcap_,
                                   .logits_RV = softcap_ > 0 ? chunk.logits_RV : View{}});
  context.inspect("logits_gradient", dlogits);
  return dlogits;
}

void VocabularyHead::forward(Context& context, const Batch& batch, ConstView x_TH,
                             View loss_T) const {
  if (!batch.compared.rows_P3.absent())
    return compare_answers(*this, context, batch, x_TH, loss_T, {});
  const device::NameScope scope(context.device(), "head");
  const HeadRows rows_of = input().forward(context, batch, x_TH, nullptr, weight_->name());
  const ChosenRows chosen(context, batch, rows_of.rows_TE(), loss_T);
  device::Tensor numbers;
  const Weight w_VE = as_numbers(context.exec, *weight_, numbers);
  const int64_t most_rows = std::min(chunk_rows(), chosen.count());
  for (int64_t begin = 0; begin < chosen.count(); begin += most_rows) {
    const int64_t rows = std::min(most_rows, chosen.count() - begin);
    Chunk chunk;
    chunk_losses(context,
                 {.w_VE = w_VE,
                  .h_RH = chosen.h_RE.rows(begin, rows),
                  .targets_R = chosen.targets_R.rows(begin, rows),
                  .loss_R = chosen.loss_R.rows(begin, rows),
                  .most_rows = most_rows},
                 chunk);
  }
  chosen.spread_losses(context, loss_T);
}

void VocabularyHead::forward_backward(Context& context, const Batch& batch, ConstView x_TH,
                                      float z_loss, View loss_T, View dx_TH) const {
  if (!batch.compared.rows_P3.absent())
    return compare_answers(*this, context, batch, x_TH, loss_T, dx_TH);
  const device::NameScope scope(context.device(), "head");
  HeadInputSaved saved;
  const HeadRows rows_of = input().forward(context, batch, x_TH, &saved, weight_->name());
  const ConstView h_TE = rows_of.rows_TE();
  const ChosenRows chosen(context, batch, h_TE, loss_T);
  const device::Tensor dh =
      context.workspace(context.activation, Shape{x_TH.size(0), h_TE.size(1)});
  device::Tensor apart;  // of the chosen rows; with sequence parallelism before the sum over ranks
  if (context.sequence || !chosen.are_all()) {
    apart = context.workspace(context.sequence ? context.accumulation : context.activation,
                              chosen.h_RE.shape());
  }
  const View dh_RE = apart.view.absent() ? dh.view : apart.view;
  device::Tensor numbers;
  const Weight w_VE = as_numbers(context.exec, *weight_, numbers);
  const int64_t most_rows = std::min(chunk_rows(), chosen.count());
  for (int64_t begin = 0, end = 0; begin < chosen.count(); begin = end) {
    end = kernels::end_of_pairs(chosen.runs, std::min(begin + most_rows, chosen.count()));
    const int64_t count = end - begin;
    const Rows rows{w_VE,
                    chosen.h_RE.rows(begin, count),
                    chosen.targets_R.rows(begin, count),
                    chosen.loss_R.rows(begin, count),
                    most_rows,
                    true,
                    chosen.weight_R.rows(begin, count),
                    batch.loss_scale,
                    z_loss};
    Chunk chunk;
    chunk_losses(context, rows, chunk);
    const View dlogits = chunk_gradient(context, rows, chunk);
    if (weight_->trainable())
      kernels::linear_backward_weight(
          context.exec,
          {dlogits, rows.h_RH, weight_gradient(), kernels::runs_of_rows(chosen.runs, begin, end)});
    if (bias_ != nullptr && bias_->trainable()) {
      const Shape row{1, bias_->local_elements()};
      kernels::column_sum(context.exec, {dlogits, bias_->gradient_sum().reshape(row), {}});
    }
    input_gradient(context, w_VE, dlogits, dh_RE.rows(begin, count));
  }
  chosen.spread_losses(context, loss_T);
  if (context.sequence) {
    sum_over_ranks(context, batch, chosen, apart, dh);
  } else if (!chosen.are_all()) {
    chosen.spread(context, apart, dh);
  }
  input().backward(context, batch, dh, x_TH, saved, dx_TH);
  context.inspect("input_gradient", dx_TH);
}

void VocabularyHead::sum_over_ranks(Context& context, const Batch& batch, const ChosenRows& chosen,
                                    ConstView partial_RE, View dh_TE) const {
  device::Tensor partial;
  if (!chosen.are_all()) {
    partial = context.workspace(context.accumulation, Shape{batch.num_tokens, partial_RE.size(1)});
    chosen.spread(context, partial_RE, partial);
  }
  const device::Tensor sum = context.workspace(context.accumulation, dh_TE.shape());
  parallel::gather_rows_backward(context.exec, context.tensor,
                                 chosen.are_all() ? partial_RE : ConstView(partial.view), sum,
                                 sequence_shard(batch), "loss.input_gradient");
  kernels::cast(context.exec, sum, dh_TE);
}

void VocabularyHead::input_gradient(Context& context, const Weight& w_VE, ConstView dlogits_RV,
                                    View dh_RH) const {
  const bool is_sum = context.tensor.size() > 1 && !context.sequence;  // over ranks, made here
  device::Tensor partial;
  if (is_sum) partial = context.workspace(context.accumulation, dh_RH.shape());
  kernels::linear_backward_input(context.exec, {.dy_TO = dlogits_RV,
                                                .w_OI = w_VE,
                                                .dx_TI = is_sum ? partial.view : dh_RH,
                                                .k_shards = context.local_shards()});
  if (!is_sum) return;
  parallel::copy_backward(context.exec, context.tensor, partial, "loss.input_gradient");
  kernels::cast(context.exec, partial, dh_RH);
}

void VocabularyHead::logits(Context& context, ConstView x_RH, View logits_RV) const {
  const device::NameScope scope(context.device(), "head");
  const HeadRows rows_of = input().rows(context, x_RH);
  const ConstView h = rows_of.rows_TE();
  device::Tensor numbers;
  const Weight w_VE = as_numbers(context.exec, *weight_, numbers);
  const auto project = [&](View y_RV) {
    kernels::linear_forward(context.exec,
                            {.x_TI = h, .w_OI = w_VE, .y_TO = y_RV, .bias_O = bias()});
  };
  if (context.tensor.size() == 1) {
    project(logits_RV);
    return finish_logits(context, logits_RV);
  }
  // Each rank has a run of the columns; rank by rank they come together.
  const int64_t rows = x_RH.size(0), local = weight_->local_shape()[0];
  const device::Tensor own = context.workspace(logits_RV.dtype(), Shape{rows, local});
  project(own);
  const device::Tensor all =
      context.workspace(logits_RV.dtype(), Shape{context.tensor.size(), rows * local});
  context.tensor.wait(context.tensor.start_all_gather(own.view.reshape(Shape{1, rows * local}), all,
                                                      "head.logits"));
  for (int rank = 0; rank < context.tensor.size(); ++rank) {
    context.device().copy(logits_RV.columns(rank * local, local),
                          all.view.rows(rank, 1).reshape(Shape{rows, local}));
  }
  finish_logits(context, logits_RV);
}

}  // namespace megalith::layers
