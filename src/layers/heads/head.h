// SPDX-License-Identifier: Apache-2.0
// A loss is a head: what makes losses of the rows behind the last block, and the gradient of those
// rows. A model's description says which; the list of all is in head.cpp. Every head gives one loss
// value for each of its units (U), which have a target and a weight each; what sums and averages
// them need not know what a unit is.
#pragma once

#include <memory>
#include <string>

#include "layers/embedding.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// What a loss value, its target and its weight are of.
enum class LossUnit : uint8_t { token, sequence };

/// The losses that a head gives, as all ranks know them, with or without the head.
struct LossShape {
  LossUnit unit = LossUnit::token;
  DType targets = DType::i32;    // i32: a number of a class; f32: numbers to come near
  int64_t numbers_per_unit = 1;  // of f32 targets
  /// Loss values of a batch: a function of its shapes, so that plans have them. Of sequences as
  /// many as the batch may have: those that it lacks stand behind the others and weigh nothing.
  int64_t values(int64_t num_tokens, int64_t max_sequences) const {
    return unit == LossUnit::token ? num_tokens : max_sequences;
  }
};
LossShape loss_shape(const HeadSpec& spec);

class Head {
 public:
  Head() = default;
  virtual ~Head() = default;
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// loss_U (f32) of the batch's units, unweighted, overwritten; x_TH: the rank's own tokens.
  /// Collective over the tensor ranks.
  virtual void forward(Context& context, const Batch& batch, ConstView x_TH, View loss_U) const = 0;
  /// The same, and dx_TH (overwritten) = gradient of loss_scale * sum weight * (loss + z lse^2)
  /// (heads without a softmax have no z-loss); parameter gradients accumulate.
  virtual void forward_backward(Context& context, const Batch& batch, ConstView x_TH, float z_loss,
                                View loss_U, View dx_TH) const = 0;
  /// logits_RV (f32 or f64), whole vocabulary with padding, of the given rows of x, on every tensor
  /// rank. Collective over them. Of heads with logits (HeadType::has_logits) alone.
  virtual void logits(Context& context, ConstView x_RH, View logits_RV) const;
};

/// What a head is made from.
struct HeadConfig {
  HeadSpec spec;
  NormSpec norm;                          // of the rows it is given, declared as "final_norm"
  TokenTable table;                       // sizes of the model
  parameters::Parameter* tied = nullptr;  // the token embedding on the same rank, where spec.tied
};

/// An entry of the list of heads.
struct HeadType {
  HeadKind kind;
  LossUnit unit;
  DType targets;
  bool has_logits;  // of a vocabulary: what scoring and generation read
  /// What of a description this head cannot be, in words; empty: nothing.
  std::string (*fault)(const HeadSpec& spec);
  /// Without the norm's and what is tied.
  int64_t (*num_parameters)(const HeadSpec& spec, int64_t hidden, int64_t vocab);
  /// Declares the head's parameters.
  std::unique_ptr<Head> (*make)(parameters::ParameterSet& set, const HeadConfig& config,
                                const Partition& partition);
};
const HeadType& head_type(HeadKind kind);

/// UserError unless the head gives logits of a vocabulary; `what` needs them ("scoring").
void require_logits(const HeadSpec& spec, std::string_view what);

}  // namespace megalith::layers
