// SPDX-License-Identifier: Apache-2.0
// OpenAI's POST /v1/chat/completions: fields, answer, stream.
#pragma once

#include "protocols/generation_fields.h"

namespace megalith::protocols {

struct ChatShape {
  std::vector<int32_t> prompt{};
  int64_t n = 1;
  std::optional<int64_t> logprobs{};  // alternatives of each token
  bool include_usage = false;
  bool tokens_as_ids = false;
  /// What is written is calls alone: of this function, once, or of any ("").
  std::optional<std::string> forced{};
};

/// ApiError naming the field that is wrong.
Prepared prepare_chat_completion(const Json& body, const ServedModel& model);

std::unique_ptr<Reply> make_chat_reply(const ServedModel& model, const ChatShape& shape,
                                       bool streams);

}  // namespace megalith::protocols
