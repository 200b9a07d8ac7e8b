// SPDX-License-Identifier: Apache-2.0
#include "heads/head.h"

#include "heads/pretraining_head.h"
#include "heads/sequence_head.h"
#include "heads/vocabulary_head.h"

namespace megalith::layers {

namespace {

HeadInputConfig input_of(const HeadConfig& config) {
  const HeadType& type = head_type(config.spec.kind);
  HeadInputConfig input{.hidden = config.hidden,
                        .width = type.has_logits ? config.table.width : config.hidden,
                        .init_std = config.table.init_std};
  if (config.spec.norm) input.norm = config.norm;
  if (reads_each_token(type.kind)) input.transform = config.spec.transform;
  return input;
}

}  // namespace

Head::Head(parameters::ParameterSet& set, const HeadConfig& config, const Partition& partition)
    : input_(set, input_of(config), partition) {}

std::unique_ptr<Head> make_head(parameters::ParameterSet& set, const HeadConfig& config,
                                const Partition& partition) {
  switch (config.spec.kind) {
    case HeadKind::language_model:
      return std::make_unique<VocabularyHead>(set, config, partition);
    case HeadKind::sequence_classification:
    case HeadKind::sequence_regression:
    case HeadKind::token_classification:
    case HeadKind::none:
    case HeadKind::question_answering:
      return std::make_unique<SequenceHead>(set, config, partition);
    case HeadKind::pretraining:
      return std::make_unique<PretrainingHead>(set, config, partition);
  }
  MEGA_CHECK(false, "no head of kind number {}", static_cast<int>(config.spec.kind));
}

void Head::logits(Context&, ConstView, View) const {
  MEGA_CHECK(false, "this head has no logits of a vocabulary");
}

void Head::outputs(Context&, const Batch&, ConstView, View) const {
  MEGA_CHECK(false, "this head has no outputs but logits");
}

}  // namespace megalith::layers
