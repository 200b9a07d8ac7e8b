// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and /detokenize, as vLLM and as llama.cpp have them.
#pragma once

#include "protocols/json_body.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

/// {"prompt" | "messages", "add_special_tokens", "return_token_strs"} to {"count", "max_model_len",
/// "tokens", "token_strs"}; {"content", "add_special", "with_pieces"} to {"tokens"}.
Body tokenize(const Json& body, const ServedModel& model);
/// {"tokens"} to {"prompt", "content"}.
Body detokenize(const Json& body, const ServedModel& model);

}  // namespace megalith::protocols
