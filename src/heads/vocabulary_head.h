// SPDX-License-Identifier: Apache-2.0
// The head of a language model: final norm, output projection onto the vocabulary (cut over the
// tensor ranks), scale and cap of logits where the model has them, and softmax cross-entropy, in
// chunks of rows: full logits never exist. Training computes the loss and the gradient in one pass,
// since the scale of the gradient (the step's global weight) is known before.
#pragma once

#include "heads/head.h"

namespace megalith::layers {

class ChosenRows;

/// Chunks of rows are multiples of this, but for the last.
inline constexpr int64_t kLossRowMultiple = 64;

/// A unit is a token: loss = -log p(target); or where a batch compares answers, a pair of them
/// (compared_answers.h).
class VocabularyHead final : public Head {
 public:
  /// Declares, unless `config.tied` is given, "head.weight" [V, E]; with a bias "head.bias" [V].
  /// With `tied` the projection reads the token embedding and its gradient goes to buffer 1.
  VocabularyHead(parameters::ParameterSet& set, const HeadConfig& config,
                 const Partition& partition);

  void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_T) const override;
  void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                        View loss_T, View dx_TH) const override;
  void logits(Context& context, ConstView x_RH, View logits_RV) const override;

  int64_t vocab() const { return vocab_; }
  int64_t padded_vocab() const { return padded_vocab_; }

 private:
  struct Rows;
  struct Chunk;
  void chunk_losses(Context& context, const Rows& rows, Chunk& chunk) const;
  View chunk_gradient(Context& context, const Rows& rows, const Chunk& chunk) const;
  int64_t chunk_rows() const;
  /// The product with the table to logits, in place.
  void finish_logits(Context& context, View logits_RV) const;
  /// dh_TE = the rank's own tokens of the sum of all ranks' partials of the chosen rows.
  /// Collective.
  void sum_over_ranks(Context& context, const Batch& batch, const ChosenRows& chosen,
                      ConstView partial_RE, View dh_TE) const;
  /// dh_RH = dlogits_RV w, summed over the tensor ranks but with sequence parallelism.
  void input_gradient(Context& context, const Weight& w_VE, ConstView dlogits_RV, View dh_RH) const;
  View weight_gradient() const;
  int64_t vocab_;
  int64_t padded_vocab_;
  ConstView bias() const { return bias_ != nullptr ? ConstView(bias_->compute()) : ConstView{}; }
  parameters::Parameter* weight_;
  parameters::Parameter* bias_ = nullptr;
  bool tied_;
  float scale_, softcap_;
};

}  // namespace megalith::layers
