// SPDX-License-Identifier: Apache-2.0
// OpenAI's POST /v1/completions: fields, answer, stream.
#pragma once

#include "protocols/generation_fields.h"

namespace megalith::protocols {

/// The texts of one request, in the order of its prompts.
struct CompletionShape {
  struct Prompt {
    std::string text;          // as echoed
    std::vector<int32_t> ids;  // as read
  };
  std::vector<Prompt> prompts{};
  int64_t n = 1;
  int64_t sequences = 1;  // of each prompt: the n are the best of these, or one search's
  bool searches = false;
  bool echo = false;
  std::optional<int64_t> logprobs{};  // alternatives of each token
  std::vector<int32_t> end_ids{};
  bool include_usage = false;
  bool tokens_as_ids = false, return_ids = false;
};

/// ApiError naming the field that is wrong.
Prepared prepare_completion(const Json& body, const ServedModel& model);

std::unique_ptr<Reply> make_completion_reply(const ServedModel& model, CompletionShape shape,
                                             bool streams);

}  // namespace megalith::protocols
