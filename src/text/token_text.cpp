// SPDX-License-Identifier: Apache-2.0
#include "text/token_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "text/tokenizer_data.h"

namespace megalith::text {

TokenText::TokenText(const Tokenizer* tokenizer, bool as_ids)
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
  const TokenizerData& data = tokenizer_->data();
  if (data.kind == ModelKind::byte_bpe) return std::string(tokenizer_->token_bytes(id));
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

}  // namespace megalith::text
