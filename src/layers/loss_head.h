// SPDX-License-Identifier: Apache-2.0
// Final norm, output projection onto the vocabulary (cut over the tensor ranks), scale and cap of
// logits where the model has them, and softmax cross-entropy, in chunks of rows: full logits never
// exist. Training computes the loss and the gradient in one pass, since the scale of the gradient
// (the step's global weight) is known before.
#pragma once

#include "layers/embedding.h"
#include "layers/norm.h"

namespace megalith::layers {

/// Chunks of rows are multiples of this, but for the last.
inline constexpr int64_t kLossRowMultiple = 64;

class LossHead {
 public:
  /// Declares "final_norm" and, unless `tied` is given, "head.weight" [V, H]. With `tied` (the
  /// token embedding on the same rank) the projection reads it and its gradient goes to buffer 1.
  LossHead(parameters::ParameterSet& set, const TokenTable& table, const NormSpec& norm,
           const HeadSpec& spec, parameters::Parameter* tied, const Partition& partition);

  /// loss_T (f32) = -log p(target) per token of the batch, unweighted; x_TH: the rank's own tokens.
  /// Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_T) const;
  /// The same, and dx_TH (overwritten) = gradient of loss_scale * sum weight * (loss + z lse^2);
  /// parameter gradients accumulate.
  void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                        View loss_T, View dx_TH) const;
  /// logits_RV (f32 or f64), whole vocabulary with padding, of the given rows of x, on
  /// every tensor rank. Collective over them.
  void logits(Context& context, ConstView x_RH, View logits_RV) const;

  int64_t vocab() const { return vocab_; }
  int64_t padded_vocab() const { return padded_vocab_; }

 private:
  struct Chunk;
  void chunk_losses(Context& context, const Batch& batch, ConstView h_RH, int64_t begin,
                    Chunk& chunk, bool keep_exps, View loss_R) const;
  int64_t chunk_rows() const;
  /// The product with the table to logits, in place.
  void finish_logits(Context& context, View logits_RV) const;
  /// The final norm's output for all tokens of the batch, in one of the two buffers.
  ConstView normed(Context& context, const Batch& batch, ConstView x_TH, NormSaved* saved,
                   device::Tensor& own, device::Tensor& gathered) const;
  /// dh_RH = dlogits_RV w, summed over the tensor ranks.
  void input_gradient(Context& context, ConstView dlogits_RV, View dh_RH) const;
  View weight_gradient() const;
  int64_t vocab_;
  int64_t padded_vocab_;
  Norm norm_;
  parameters::Parameter* weight_;
  bool tied_;
  float scale_, softcap_;
};

}  // namespace megalith::layers
