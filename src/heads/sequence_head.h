// SPDX-License-Identifier: Apache-2.0
// A head of whole sequences: one pooled row for each sequence, a dense layer with a tanh where the
// model has them (BERT's pooler), and a few outputs o:
//   sequence_classification   o are logits of classes; loss = -log softmax(o)[target]
//   sequence_regression       loss = mean over o of (o - target)^2
//   token_classification      as of sequences, of each token's own row
//   question_answering        start and end logits of each token's own row; the loss is of the
//                             answer span in its sequence (kernels/cross_entropy/span_loss.h)
//   none                      no outputs and no loss: a model that gives rows (Head::last_hidden)
// From the pooled rows on all is f32, whatever activations are stored in, and the same on every
// tensor rank: outputs are few, so their weights are whole everywhere, nothing travels. Products of
// f32 are chains in increasing row, which no cut into micro-batches changes.
#pragma once

#include "heads/head.h"

namespace megalith::layers {

/// A unit is a sequence of the batch, or a token of it (token_classification). targets: i32 [U]
/// ([U, O] of spans), or f32 [U, O]; loss_weight: [U]. U is what the batch may have
/// (LossShape::values): rows beyond its sequences are pooled to zero.
class SequenceHead final : public Head {
 public:
  /// Declares, with a dense layer, "head.dense", and "head.output": weight and bias (behind
  /// config.name).
  SequenceHead(parameters::ParameterSet& set, const HeadConfig& config, const Partition& partition);

  void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_U) const override;
  void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                        View loss_U, View dx_TH) const override;
  void outputs(Context& context, const Batch& batch, ConstView x_TH, View y_UO) const override;

 private:
  /// Weights that every tensor rank has whole.
  struct Product {
    parameters::Parameter* weight = nullptr;
    parameters::Parameter* bias = nullptr;
    void forward(Context& context, ConstView x_UI, View y_UO) const;
    /// dx_UI overwritten; weight and bias accumulate.
    void backward(Context& context, ConstView dy_UO, ConstView x_UI, View dx_UI) const;
  };
  static Product declare(parameters::ParameterSet& set, const std::string& name,
                         const LinearConfig& config);
  struct Pooled;
  /// `keep`: what backward needs.
  Pooled pooled(Context& context, const Batch& batch, ConstView h_TH, int64_t units,
                bool keep = false) const;
  bool is_of_tokens() const { return reads_each_token(spec_.kind); }
  /// What the outputs are made of, from pooled rows, and its gradient.
  ConstView inner(Context& context, Pooled& pooled) const;
  void inner_backward(Context& context, const Pooled& pooled, View dinner_UH,
                      View dpooled_UH) const;
  /// The gradient of the rows read, of the rank's own tokens; dy_UO is used up.
  void input_gradient(Context& context, const Batch& batch, const Pooled& pooled, View dh) const;
  HeadSpec spec_;
  Product dense_, output_;
  std::optional<HeadInput> transform_;  // of pooled rows
};

}  // namespace megalith::layers
