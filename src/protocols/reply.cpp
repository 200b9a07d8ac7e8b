// SPDX-License-Identifier: Apache-2.0
#include "protocols/reply.h"

#include <optional>

namespace megalith::protocols {

std::string event_of(std::string_view data) { return fmt::format("data: {}\n\n", data); }

std::vector<Written> texts_of_search(Written written, const text::Tokenizer* tokenizer,
                                     std::span<const int32_t> before) {
  std::vector<generate::Generated> others = std::exchange(written.result.others, {});
  std::vector<Written> all{std::move(written)};
  for (generate::Generated& other : others) {
    Written& text = all.emplace_back();
    std::optional<text::StreamDecoder> decoder;
    if (tokenizer != nullptr) {
      decoder.emplace(*tokenizer);
      for (const int32_t id : before) decoder->push(id);
    }
    for (size_t i = 0; i < other.ids.size(); ++i) {
      text.tokens.push_back(
          {{other.ids[i], other.logprobs[i]},
           other.top_logprobs.empty() ? std::vector<generate::Choice>() : other.top_logprobs[i],
           decoder ? decoder->push(other.ids[i]) : ""});
    }
    text.result = std::move(other);
    text.result.prompt_logprobs = all.front().result.prompt_logprobs;
    text.result.prompt_top_logprobs = all.front().result.prompt_top_logprobs;
  }
  return all;
}

}  // namespace megalith::protocols
