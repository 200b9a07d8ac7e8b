// SPDX-License-Identifier: Apache-2.0
#include "protocols/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "text/tokenizer_data.h"

namespace megalith::protocols {

TokenText::TokenText(const text::Tokenizer* tokenizer, bool as_ids)
    : tokenizer_(tokenizer), as_ids_(as_ids) {
  if (tokenizer == nullptr) return;
  for (const char* name : {"a", "e", "\u2581a", "0", "."}) {
    before_ = tokenizer->id_of(name);
    if (!before_) continue;
    before_text_ = tokenizer->decode(std::array{*before_}, true);
    if (!before_text_.empty()) return;
  }
  before_.reset();
}

std::string TokenText::text(int32_t id) const {
  if (as_ids_ || tokenizer_ == nullptr || id >= tokenizer_->vocab_size())
    return fmt::format("token_id:{}", id);
  return decoded(id);
}

std::string TokenText::decoded(int32_t id) const {
  if (before_) {
    const std::string both = tokenizer_->decode(std::array{*before_, id}, true);
    if (both.starts_with(before_text_)) return both.substr(before_text_.size());
  }
  return tokenizer_->decode(std::array{id}, true);
}

std::string TokenText::bytes(int32_t id) const {
  if (tokenizer_ == nullptr || id >= tokenizer_->vocab_size()) return "";
  const text::TokenizerData& data = tokenizer_->data();
  if (data.kind == text::ModelKind::byte_bpe) return std::string(tokenizer_->token_bytes(id));
  const std::string spelled = tokenizer_->token_text(id);
  // With byte fallback a token may be one byte: <0xE2>.
  if (spelled.size() == 6 && spelled.starts_with("<0x") && spelled.ends_with(">")) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(spelled.data() + 3, spelled.data() + 5, byte, 16);
    if (error == std::errc() && end == spelled.data() + 5)
      return std::string(1, static_cast<char>(byte));
  }
  return decoded(id);
}

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

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace megalith::protocols
