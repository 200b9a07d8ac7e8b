// SPDX-License-Identifier: Apache-2.0
#include "grammars/token_texts.h"

#include <optional>

#include "base/error.h"
#include "text/tokenizer_data.h"
#include "tokenize/byte_fallback.h"

namespace megalith::grammars {
namespace {

/// Decoders other than that of bytes are asked: each token alone, and behind another one.
class AskedDecoder {
 public:
  explicit AskedDecoder(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (int32_t id = 0; id < tokenizer_.vocab_size() && before_ < 0; ++id) {
      if (!has_text(id) || tokenize::byte_of_token(tokenizer_.token_text(id))) continue;
      text::StreamDecoder stream(tokenizer_);
      const std::string streamed = stream.push(id) + stream.push(id);
      if (streamed.empty() || streamed != tokenizer_.decode(std::vector{id, id})) continue;
      before_ = id;
      before_text_ = tokenizer_.decode(std::vector{id});
    }
    if (before_ < 0)
      throw UserError(
          "this tokenizer's decoder changes a text once it is whole: a grammar cannot follow it");
    // Byte tokens are bytes if the decoder makes a letter of one.
    for (int letter = 'A'; letter <= 'Z' && !joins_bytes_; ++letter) {
      const auto id = tokenizer_.id_of(tokenize::byte_token(static_cast<uint8_t>(letter)));
      joins_bytes_ =
          id && has_text(*id) && behind(*id) == std::string(1, static_cast<char>(letter));
    }
  }

  bool has_text(int32_t id) const {
    return tokenizer_.data().vocabulary.has(id) && !tokenizer_.is_special(id);
  }
  std::optional<uint8_t> byte_of(int32_t id) const {
    return joins_bytes_ ? tokenize::byte_of_token(tokenizer_.token_text(id)) : std::nullopt;
  }
  /// What the token adds behind another one; nothing if it changes what is before it.
  std::string behind(int32_t id) const {
    const std::string whole = tokenizer_.decode(std::vector{before_, id});
    return whole.starts_with(before_text_) ? whole.substr(before_text_.size()) : "";
  }
  std::string alone(int32_t id) const { return tokenizer_.decode(std::vector{id}); }

 private:
  const text::Tokenizer& tokenizer_;
  int32_t before_ = -1;
  std::string before_text_;
  bool joins_bytes_ = false;
};

}  // namespace

TokenTexts token_texts(const text::Tokenizer& tokenizer) {
  const auto ids = static_cast<size_t>(tokenizer.vocab_size());
  TokenTexts result{std::vector<std::string>(ids), std::vector<bool>(ids)};
  const text::TokenizerData& data = tokenizer.data();
  if (data.decoder.only_joins_bytes()) {
    for (size_t i = 0; i < ids; ++i) {
      const auto id = static_cast<int32_t>(i);
      if (data.vocabulary.has(id) && !tokenizer.is_special(id))
        result.texts[i] = tokenizer.token_bytes(id);
    }
    return result;
  }
  const AskedDecoder decoder(tokenizer);
  for (size_t i = 0; i < ids; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!decoder.has_text(id)) continue;
    const std::optional<uint8_t> byte = decoder.byte_of(id);
    if (byte && tokenize::byte_token(*byte) != tokenizer.token_text(id)) continue;
    result.texts[i] = byte ? std::string(1, static_cast<char>(*byte)) : decoder.behind(id);
    const std::string first = decoder.alone(id);
    // Of bytes above ASCII only a whole run is a text; such bytes are the same everywhere.
    result.differs_first[i] = first != result.texts[i] && !(byte && *byte >= 0x80);
  }
  return result;
}

std::shared_ptr<const TokenTrie> token_trie(const text::Tokenizer& tokenizer) {
  TokenTexts tokens = token_texts(tokenizer);
  return std::make_shared<const TokenTrie>(std::move(tokens.texts), tokens.differs_first);
}

}  // namespace megalith::grammars
