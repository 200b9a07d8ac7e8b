// SPDX-License-Identifier: Apache-2.0
// Writes one text: a batch generator of one request.
#pragma once

#include "generate/request.h"
#include "inference/inference_engine.h"

namespace megalith::generate {

/// The request's prompt must not be empty and fit the context; its `client` and `on_end` are of no
/// account. An encoder-decoder reads the prompt and writes a text of its own. `tokenizer` may be
/// null: then text is empty and there are no stop texts. Collective over the ranks of the model,
/// which call alike and get the same. Stops with "length" at max_new_tokens or a full context.
/// `draft`: a smaller model, for requests that want its guesses.
Generated generate(inference::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   Request request, inference::InferenceEngine* draft = nullptr);
/// Of a request that is no more than this.
Generated generate(inference::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   std::span<const int32_t> prompt_ids, const GenerateOptions& options,
                   std::function<void(std::string_view piece)> on_text = {});

}  // namespace megalith::generate
