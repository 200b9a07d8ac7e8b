// SPDX-License-Identifier: Apache-2.0
// Whether a text is one that a model can read, score or go on with.
#include "base/error.h"
#include "inference/inference_engine.h"

namespace megalith::inference {

void check_ids(const models::ModelSpec& spec, std::span<const int32_t> ids, int64_t limit,
               int64_t in_text) {
  if (ids.empty()) throw UserError("there are no tokens to read; give at least one");
  if (std::ssize(ids) > limit) {
    throw UserError("{} tokens are more than the {}model's context of {}", ids.size(),
                    limit < spec.context ? fmt::format("{} that are left of the ", limit) : "",
                    spec.context);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= spec.vocab + in_text) {
      throw UserError("token id {} at position {} is outside the vocabulary of {}", ids[i], i,
                      spec.vocab);
    }
  }
}

namespace {

/// `what`: "scoring".
void check_predicts(const models::ModelSpec& spec, std::string_view what) {
  layers::require_logits(spec.head, what);
  if (!spec.is_causal()) {
    throw UserError("{} needs a model that predicts the next token, and an encoder does not{}",
                    what, what == "scoring" ? "; score masked ones: --masked" : "");
  }
}

}  // namespace

void require_one_stack(const models::ModelSpec& spec, std::string_view what) {
  check_predicts(spec, what);
  if (!spec.is_encoder_decoder()) return;
  throw UserError(
      "{} is for models of one stack, and an encoder-decoder predicts a target from a text", what);
}

void check_generates(const models::ModelSpec& spec) { check_predicts(spec, "generating text"); }

void check_scorable(const models::ModelSpec& spec, std::span<const int32_t> ids,
                    int64_t virtual_tokens, int64_t in_text) {
  check_predicts(spec, "scoring");
  if (spec.is_encoder_decoder()) {
    throw UserError(
        "an encoder-decoder predicts a target from a text: give both, \"target\" beside "
        "\"text\" in lines to score");
  }
  check_ids(spec, ids, spec.context - virtual_tokens, in_text);
}

void check_target(const models::ModelSpec& spec, std::span<const int32_t> ids,
                  std::span<const int32_t> target, int64_t virtual_tokens, int64_t in_text) {
  check_predicts(spec, "scoring");
  if (!spec.is_encoder_decoder())
    throw UserError(
        "a target beside the text is for encoder-decoders, and this model has one stack");
  const int64_t read = spec.context - virtual_tokens;
  check_ids(spec, ids, read, in_text);
  if (!target.empty()) check_ids(spec, target, spec.context);
}

}  // namespace megalith::inference
