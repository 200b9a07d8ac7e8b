// SPDX-License-Identifier: Apache-2.0
#include "heads/pretraining_head.h"

#include "kernels/elementwise/pointwise.h"

namespace megalith::layers {
namespace {

/// Of what the two heads are not: nothing.
HeadConfig of_both(HeadConfig config) {
  config.spec.transform.reset();
  return config;
}

HeadConfig of_pairs(HeadConfig config) {
  config.spec = {.kind = HeadKind::sequence_classification,
                 .norm = false,
                 .tied = false,
                 .pooling = Pooling::first,
                 .dense = HeadDense::tanh,
                 .outputs = 2};
  config.name = "head.pair";
  config.tied = nullptr;
  return config;
}

/// The batch as the head of pairs sees it: a sequence is a sample.
Batch pairs_of(const Batch& batch) {
  Batch pairs = batch;
  pairs.cu_seqlens_device = batch.pairs.cu_samples;
  pairs.targets_T = batch.pairs.targets_N;
  pairs.loss_weight_T = batch.pairs.weight_N;
  pairs.loss_scale = batch.pairs.loss_scale;
  pairs.predicted = {};
  return pairs;
}

}  // namespace

PretrainingHead::PretrainingHead(parameters::ParameterSet& set, const HeadConfig& config,
                                 const Partition& partition)
    : Head(set, of_both(config), partition),
      tokens_(set, config, partition),
      pairs_(set, of_pairs(config), partition) {}

void PretrainingHead::forward(Context& context, const Batch& batch, ConstView x_TH,
                              View loss_U) const {
  if (batch.pairs.targets_N.absent()) return tokens_.forward(context, batch, x_TH, loss_U);
  tokens_.forward(context, batch, x_TH, loss_U.rows(0, batch.num_tokens));
  pairs_.forward(context, pairs_of(batch), x_TH, loss_U.rows(batch.num_tokens, batch.num_samples));
}

void PretrainingHead::forward_backward(Context& context, const Batch& batch, ConstView x_TH,
                                       float z_loss, View loss_U, View dx_TH) const {
  tokens_.forward_backward(context, batch, x_TH, z_loss, loss_U.rows(0, batch.num_tokens), dx_TH);
  const device::Tensor of_pairs = context.workspace(context.activation, dx_TH.shape());
  pairs_.forward_backward(context, pairs_of(batch), x_TH, 0,
                          loss_U.rows(batch.num_tokens, batch.num_samples), of_pairs);
  kernels::add(context.exec, dx_TH, of_pairs, dx_TH);
}

}  // namespace megalith::layers
