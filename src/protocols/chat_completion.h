// SPDX-License-Identifier: Apache-2.0
// OpenAI's POST /v1/chat/completions: fields, answer, stream.
#pragma once

#include "protocols/generation_fields.h"
#include "protocols/tool_calls.h"

namespace megalith::protocols {

struct ChatShape {
  std::vector<int32_t> prompt{};
  int64_t n = 1;
  std::optional<int64_t> logprobs{};  // alternatives of each token
  bool include_usage = false;
  bool tokens_as_ids = false;
};

/// ApiError naming the field that is wrong.
Prepared prepare_chat_completion(const Json& body, const ServedModel& model);

/// `tools`: of which calls are told.
std::unique_ptr<Reply> make_chat_reply(const ServedModel& model, const ChatShape& shape,
                                       const ToolFields& tools, bool streams);

}  // namespace megalith::protocols
