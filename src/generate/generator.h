// SPDX-License-Identifier: Apache-2.0
// Writes a continuation token by token: prefill of the prompt, then cached decoding, until a stop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/inference_engine.h"
#include "generate/sampling.h"
#include "text/tokenizer.h"

namespace megalith::generate {

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  SamplingOptions sampling;
  std::vector<std::string> stop;  // the text ends before the first of these
  std::vector<int32_t> end_ids;   // tokens that end it
};

struct Generated {
  std::string text;              // of the new tokens, without end token or stop text
  std::vector<int32_t> ids;      // new tokens, without the end token
  std::vector<double> logprobs;  // of ids
  std::string finish_reason;     // "stop" or "length"
  double prompt_seconds = 0;
  double decode_seconds = 0;
};

/// Text that is certain: given piece by piece, never within a character or a possible stop text.
using OnText = std::function<void(std::string_view piece)>;

/// `prompt_ids` must not be empty and fit the context. An encoder-decoder reads them and writes a
/// text of its own. `tokenizer` may be null: then text is empty
/// and there are no stop texts. Collective over the ranks of the model, which call alike and get
/// the same. Stops with "length" at max_new_tokens or a full context.
Generated generate(engine::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   std::span<const int32_t> prompt_ids, const GenerateOptions& options,
                   const OnText& on_text = {});

}  // namespace megalith::generate
