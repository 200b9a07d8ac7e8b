// SPDX-License-Identifier: Apache-2.0
#include "layers/heads/head.h"

#include <algorithm>

#include "base/error.h"
#include "layers/heads/sequence_head.h"
#include "layers/heads/vocabulary_head.h"

namespace megalith::layers {
namespace {

/// One for each HeadKind.
constexpr const HeadType* kHeads[] = {&VocabularyHead::kType, &SequenceHead::kClassification,
                                      &SequenceHead::kRegression};

}  // namespace

const HeadType& head_type(HeadKind kind) {
  const auto* const found =
      std::ranges::find_if(kHeads, [&](const HeadType* type) { return type->kind == kind; });
  MEGA_CHECK(found != std::end(kHeads), "no head of kind {}", config::name_of(kind));
  return **found;
}

LossShape loss_shape(const HeadSpec& spec) {
  const HeadType& type = head_type(spec.kind);
  return {type.unit, type.targets, type.targets == DType::f32 ? spec.outputs : 1};
}

void Head::logits(Context&, ConstView, View) const {
  MEGA_CHECK(false, "this head has no logits of a vocabulary");
}

void require_logits(const HeadSpec& spec, std::string_view what) {
  if (head_type(spec.kind).has_logits) return;
  throw UserError(
      "{} needs a model whose head gives logits of its vocabulary; this one's is for {}", what,
      config::name_of(spec.kind));
}

}  // namespace megalith::layers
