// SPDX-License-Identifier: Apache-2.0
// A loss is a head: what makes losses of the rows behind the last block, and the gradient of those
// rows. A model's description says which; what is known of each kind is in spec/head_types.h. Every
// head gives one loss value for each of its units (U), which have a target and a weight each; what
// sums and averages them need not know what a unit is.
#pragma once

#include <memory>

#include "heads/head_input.h"
#include "layers/token_table.h"
#include "spec/head_types.h"

namespace megalith::layers {

/// What a head is made from.
struct HeadConfig {
  HeadSpec spec;
  NormSpec norm;  // the model's final one, where the head has it
  int64_t hidden = 0;
  TokenTable table;                       // sizes of the model
  parameters::Parameter* tied = nullptr;  // the token embedding on the same rank, where spec.tied
  std::string name = "head";              // what the parameters of a head of sequences begin with
};

class Head {
 public:
  /// Declares what its rows go through first (head_input.h).
  Head(parameters::ParameterSet& set, const HeadConfig& config, const Partition& partition);
  virtual ~Head() = default;
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// loss_U (f32, f64 beside f64) of the batch's units, unweighted, overwritten, and behind them
  /// what is told of units (LossShape::told); x_TH: the rank's own tokens. Collective over the
  /// tensor ranks.
  virtual void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_U) const = 0;
  /// The same, and dx_TH (overwritten) = gradient of loss_scale * sum weight * (loss + z lse^2)
  /// (heads without a softmax have no z-loss); parameter gradients accumulate.
  virtual void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                                View loss_U, View dx_TH) const = 0;
  /// logits_RV (f32 or f64), whole vocabulary with padding, of the given rows of x, on every tensor
  /// rank. Collective over them. Of heads with logits (HeadType::has_logits) alone.
  virtual void logits(Context& context, ConstView x_RH, View logits_RV) const;
  /// y_UO (f32 or f64), overwritten: what the losses of the batch's units are made of. Of heads
  /// with outputs alone. Collective over the tensor ranks.
  virtual void outputs(Context& context, const Batch& batch, ConstView x_TH, View y_UO) const;
  /// y_RH: rows behind the final norm, or x where the model has none. Local.
  void last_hidden(Context& context, ConstView x_RH, View y_RH) const {
    input_.last_hidden(context, x_RH, y_RH);
  }

 protected:
  const HeadInput& input() const { return input_; }

 private:
  HeadInput input_;
};

/// The head of the description's kind. Declares its parameters.
std::unique_ptr<Head> make_head(parameters::ParameterSet& set, const HeadConfig& config,
                                const Partition& partition);

}  // namespace megalith::layers
