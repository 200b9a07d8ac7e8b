// SPDX-License-Identifier: Apache-2.0
// Vocabularies of characters (SentencePiece's, Llama 2): merges begin from the characters of a
// text. A character without a token becomes the tokens of its bytes, spelled <0x00> to <0xFF>, or
// the unknown token if one of those is missing too.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::tokenize {

/// `<0x0A>` for 10.
std::string byte_token(uint8_t byte);
/// The byte of such a token, with digits of either case; nothing for other tokens.
std::optional<uint8_t> byte_of_token(std::string_view token);
/// Appends the bytes of neighbouring byte tokens: unchanged if they are UTF-8, else one U+FFFD for
/// each of them, even for those that form good characters. Hugging Face's ByteFallback does so too.
void append_byte_run(std::string& text, std::string_view bytes);

/// The symbols that merges begin from.
class CharacterSymbols {
 public:
  CharacterSymbols();
  /// The id of a character's token.
  void set(uint32_t code, int32_t id);

  std::array<int32_t, 256> byte_ids{};  // of byte tokens; -1: there is none
  int32_t unknown_id = -1;              // -1: what has no token is left out
  bool fuse_unknown = false;            // neighbouring unknown characters are one token

  /// Appends the symbols of `text`, which must be UTF-8. As in Hugging Face, an unknown token comes
  /// after the byte tokens that follow its character.
  void append(std::string_view text, std::vector<int32_t>& symbols) const;

 private:
  static constexpr uint32_t kPageCodes = 256;
  int32_t id_of(uint32_t code) const {
    return ids_[pages_[code / kPageCodes] * kPageCodes + code % kPageCodes];
  }
  bool append_bytes(std::string_view character, std::vector<int32_t>& symbols) const;

  std::vector<uint32_t> pages_;  // of each 256 codes: where their ids are; 0 is a page of none
  std::vector<int32_t> ids_;
};

}  // namespace megalith::tokenize
