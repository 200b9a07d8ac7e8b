// SPDX-License-Identifier: Apache-2.0
#include "spec/head_types.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace megalith::layers {
namespace {

std::string vocabulary_fault(const HeadSpec& spec) {
  if (spec.scale == 0 || spec.softcap < 0)
    return fmt::format("logits of scale {} and softcap {}", spec.scale, spec.softcap);
  if (spec.pooling != Pooling::last || spec.dense != HeadDense::none || spec.outputs != 0 ||
      !spec.labels.empty())
    return "pooling, dense, outputs and labels are of heads of sequences and classes";
  return "";
}

std::string pretraining_fault(const HeadSpec& spec) {
  if (spec.norm)
    return "a head for pretraining reads the last block's rows as they are; set head.norm to false";
  return vocabulary_fault(spec);
}

int64_t transform_parameters(const HeadSpec& spec, int64_t hidden, int64_t width) {
  if (!spec.transform) return 0;
  return hidden * width + (spec.transform->bias ? width : 0) +
         norm_parameters(spec.transform->norm, width);
}

int64_t vocabulary_parameters(const HeadSpec& spec, int64_t hidden, int64_t width, int64_t vocab) {
  int64_t sum = transform_parameters(spec, hidden, width);
  if (!spec.tied) sum += vocab * width;
  if (spec.bias) sum += vocab;
  return sum;
}

/// A pooler and two outputs beside the language model's.
int64_t pretraining_parameters(const HeadSpec& spec, int64_t hidden, int64_t width, int64_t vocab) {
  return vocabulary_parameters(spec, hidden, width, vocab) + (hidden + 2) * (hidden + 1);
}

/// What every head but a language model's lacks.
std::string table_fault(const HeadSpec& spec) {
  if (spec.tied || spec.bias)
    return "a head of sequences or classes has no table of tokens; set head.tied to false";
  if (spec.softcap != 0 || spec.scale != 1)
    return "softcap and scale are of logits of a vocabulary";
  return "";
}

template <int kLeastOutputs>
std::string sequence_fault(const HeadSpec& spec) {
  if (spec.outputs < kLeastOutputs) {
    return fmt::format("a head for {} needs at least {} outputs, it has {}",
                       settings::name_of(spec.kind), kLeastOutputs, spec.outputs);
  }
  if (!spec.labels.empty() && std::ssize(spec.labels) != spec.outputs)
    return fmt::format("{} labels for {} outputs", spec.labels.size(), spec.outputs);
  if (spec.transform && spec.dense != HeadDense::none)
    return "a head has a dense layer or a transform, not both";
  return table_fault(spec);
}

/// The outputs are the start and end logits, which have no labels.
std::string span_fault(const HeadSpec& spec) {
  if (spec.outputs != 2 || !spec.labels.empty())
    return "a head for question_answering has two outputs, start and end, without labels";
  return sequence_fault<2>(spec);
}

std::string no_fault(const HeadSpec& spec) {
  if (spec.outputs != 0 || !spec.labels.empty() || spec.transform)
    return "a head without losses has no outputs";
  return table_fault(spec);
}

int64_t sequence_parameters(const HeadSpec& spec, int64_t hidden, int64_t, int64_t) {
  const int64_t dense = spec.dense == HeadDense::none ? 0 : hidden * hidden + hidden;
  return dense + transform_parameters(spec, hidden, hidden) + spec.outputs * (hidden + 1);
}

/// One for each HeadKind.
constexpr HeadType kHeads[] = {
    {HeadKind::language_model, LossUnit::token, DType::i32, true, vocabulary_fault,
     vocabulary_parameters},
    {HeadKind::sequence_classification, LossUnit::sequence, DType::i32, false, sequence_fault<2>,
     sequence_parameters},
    {HeadKind::sequence_regression, LossUnit::sequence, DType::f32, false, sequence_fault<1>,
     sequence_parameters},
    {HeadKind::token_classification, LossUnit::token, DType::i32, false, sequence_fault<2>,
     sequence_parameters},
    {HeadKind::none, LossUnit::token, DType::i32, false, no_fault, sequence_parameters},
    {HeadKind::pretraining, LossUnit::token, DType::i32, true, pretraining_fault,
     pretraining_parameters},
    {HeadKind::question_answering, LossUnit::sequence, DType::i32, false, span_fault,
     sequence_parameters},
};

}  // namespace

int64_t norm_parameters(const NormSpec& norm, int64_t width) {
  return norm.kind == NormKind::layer && norm.bias ? 2 * width : width;
}

const HeadType& head_type(HeadKind kind) {
  const auto* const found = std::ranges::find(kHeads, kind, &HeadType::kind);
  MEGA_CHECK(found != std::end(kHeads), "no head of kind {}", settings::name_of(kind));
  return *found;
}

LossShape loss_shape(const HeadSpec& spec, const std::optional<PreferenceLoss>& preferences) {
  const HeadType& type = head_type(spec.kind);
  if (preferences) {
    MEGA_CHECK(spec.kind == HeadKind::language_model, "answers compared under another head");
    return {.unit = LossUnit::pair,
            .targets = DType::f32,  // the reference's log-probabilities
            .numbers_per_unit = 2,
            .told = std::ssize(kToldOfPairs),
            .preferences = *preferences};
  }
  const bool has_numbers = type.targets == DType::f32 || spec.kind == HeadKind::question_answering;
  return {type.unit, type.targets, has_numbers ? spec.outputs : 1,
          spec.kind == HeadKind::pretraining};
}

void require_logits(const HeadSpec& spec, std::string_view what) {
  if (head_type(spec.kind).has_logits) return;
  throw UserError(
      "{} needs a model whose head gives logits of its vocabulary; this one's is for {}", what,
      settings::name_of(spec.kind));
}

}  // namespace megalith::layers
