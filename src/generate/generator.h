// SPDX-License-Identifier: Apache-2.0
// Writes one text: a batch generator of one request.
#pragma once

#include <functional>
#include <string>

#include "engine/inference_engine.h"
#include "generate/continuation.h"

namespace megalith::generate {

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
