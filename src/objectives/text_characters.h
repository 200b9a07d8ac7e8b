// SPDX-License-Identifier: Apache-2.0
// Tokens as the characters that they stand for. What is no text (special tokens, parts of
// characters that a sample's window cuts off) is one character each and keeps its token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::objectives {

class TextCharacters {
 public:
  TextCharacters(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens);

  size_t size() const { return characters_.size(); }
  /// Appends the tokens of the characters [begin, end), their text encoded anew.
  void encode(text::Encoder& encoder, size_t begin, size_t end, std::vector<int32_t>& out) const;

 private:
  struct Character {
    size_t begin;   // in text_
    int32_t token;  // -1: text
  };
  void add_run(const text::Tokenizer& tokenizer, std::span<const int32_t> run);
  void add_text(std::string_view text);
  size_t text_end(size_t character) const {
    return character + 1 < size() ? characters_[character + 1].begin : text_.size();
  }

  std::string text_;
  std::vector<Character> characters_;
};

}  // namespace megalith::objectives
