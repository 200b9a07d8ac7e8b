// SPDX-License-Identifier: Apache-2.0
// What is known of each kind of head without making one: what its losses are of, what of a
// description it cannot be, how many parameters it has. heads/head.h makes them.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "spec/layer_spec.h"
#include "tensor/dtype.h"

namespace megalith::layers {

/// What a loss value, its target and its weight are of: a token, a sequence, or two sequences that
/// are compared, one behind the other.
enum class LossUnit : uint8_t { token, sequence, pair };

/// Instead of the losses of a language model's tokens one of each pair of answers, of which one was
/// chosen (kernels/cross_entropy/preference_loss.h). No part of a model: it is still one of
/// language.
struct PreferenceLoss {
  double beta = 0.1;
  double label_smoothing = 0;
};
/// What is told of each pair beside its loss, in the order of the kernel's values.
inline constexpr std::string_view kToldOfPairs[] = {"rewards/chosen",  "rewards/rejected",
                                                    "rewards/margins", "rewards/accuracies",
                                                    "logps/chosen",    "logps/rejected"};

/// The losses that a head gives, as all ranks know them, with or without the head.
struct LossShape {
  LossUnit unit = LossUnit::token;
  DType targets = DType::i32;       // i32: indices of classes or tokens; f32: regression values
  int64_t numbers_per_unit = 1;     // targets of a unit
  bool pairs = false;               // beside them one of each sample's sentence pair
  int64_t told = 0;                 // numbers that a head tells of each unit beside its loss
  PreferenceLoss preferences = {};  // of pairs
  /// Loss values of a batch: a function of its shapes, so that plans have them. Of sequences as
  /// many as the batch may have: those that it lacks stand behind the others and weigh nothing.
  int64_t values(int64_t num_tokens, int64_t max_sequences) const {
    return unit == LossUnit::token      ? num_tokens
           : unit == LossUnit::sequence ? max_sequences
                                        : max_sequences / 2;
  }
};
LossShape loss_shape(const HeadSpec& spec, const std::optional<PreferenceLoss>& preferences = {});

/// An entry of the list of heads.
struct HeadType {
  HeadKind kind;
  LossUnit unit;
  DType targets;
  bool has_logits;  // of a vocabulary: what scoring and generation read
  /// What of a description this head cannot be, in words; empty: nothing.
  std::string (*fault)(const HeadSpec& spec);
  /// Without the final norm's and what is tied. `width`: of the tables of tokens.
  int64_t (*num_parameters)(const HeadSpec& spec, int64_t hidden, int64_t width, int64_t vocab);
};
const HeadType& head_type(HeadKind kind);
/// Whether the head has outputs for every token, not for one pooled row of each sequence.
inline bool reads_each_token(HeadKind kind) {
  return head_type(kind).unit == LossUnit::token || kind == HeadKind::question_answering;
}

/// Weight and bias.
int64_t norm_parameters(const NormSpec& norm, int64_t width);

/// UserError unless the head gives logits of a vocabulary; `what` needs them ("scoring").
void require_logits(const HeadSpec& spec, std::string_view what);

}  // namespace megalith::layers
