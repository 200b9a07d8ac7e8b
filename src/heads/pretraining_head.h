// SPDX-License-Identifier: Apache-2.0
// Two heads on one stack (BertForPreTraining, AlbertForPreTraining): a language model's, and a head
// of two classes over the first row of each sample, which is asked how the two stretches of text of
// a sentence pair belong together. Each loss has a global weight of its own; the gradients of the
// rows are added.
#pragma once

#include "heads/sequence_head.h"
#include "heads/vocabulary_head.h"

namespace megalith::layers {

/// Loss values of a batch: those of its tokens, then those of its samples' pairs, where they are
/// asked about.
class PretrainingHead final : public Head {
 public:
  /// Declares what VocabularyHead does, and "head.pair.dense" and "head.pair.output".
  PretrainingHead(parameters::ParameterSet& set, const HeadConfig& config,
                  const Partition& partition);

  void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_U) const override;
  void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                        View loss_U, View dx_TH) const override;
  void logits(Context& context, ConstView x_RH, View logits_RV) const override {
    tokens_.logits(context, x_RH, logits_RV);
  }

 private:
  VocabularyHead tokens_;
  SequenceHead pairs_;
};

}  // namespace megalith::layers
