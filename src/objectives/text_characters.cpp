// SPDX-License-Identifier: Apache-2.0
#include "objectives/text_characters.h"

#include <algorithm>

#include "characters/utf8.h"
#include "text/tokenizer_data.h"

namespace megalith::objectives {
namespace {

bool is_text(const text::Tokenizer& tokenizer, int32_t id) {
  return tokenizer.data().vocabulary.has(id) && !tokenizer.is_special(id);
}

/// Whether a place in UTF-8 lies within a character.
bool is_within_character(std::string_view bytes, size_t at) {
  return at < bytes.size() && (static_cast<uint8_t>(bytes[at]) & 0xC0) == 0x80;
}

}  // namespace

TextCharacters::TextCharacters(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  size_t begin = 0;
  for (size_t t = 0; t <= tokens.size(); ++t) {
    if (t < tokens.size() && is_text(tokenizer, tokens[t])) continue;
    add_run(tokenizer, tokens.subspan(begin, t - begin));
    if (t < tokens.size()) characters_.push_back({text_.size(), tokens[t]});
    begin = t + 1;
  }
}

/// Tokens that lack a part of a character are at the ends of a run, or its text is none.
void TextCharacters::add_run(const text::Tokenizer& tokenizer, std::span<const int32_t> run) {
  const auto keep = [&](std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) characters_.push_back({text_.size(), token});
  };
  size_t begin = 0;
  while (begin < run.size() && is_within_character(tokenizer.token_bytes(run[begin]), 0)) ++begin;
  keep(run.first(begin));
  std::string text;
  std::vector<size_t> ends;  // in `text`, of each token
  for (const int32_t token : run.subspan(begin)) {
    text += tokenizer.token_bytes(token);
    ends.push_back(text.size());
  }
  const size_t valid = std::min(characters::find_invalid_utf8(text), text.size());
  size_t whole = ends.size();
  while (whole > 0 && (ends[whole - 1] > valid || is_within_character(text, ends[whole - 1])))
    --whole;
  add_text(std::string_view(text).substr(0, whole > 0 ? ends[whole - 1] : 0));
  keep(run.subspan(begin + whole));
}

void TextCharacters::add_text(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += characters::read_utf8(text.data() + at).length)
    characters_.push_back({text_.size() + at, -1});
  text_ += text;
}

void TextCharacters::encode(text::Encoder& encoder, size_t begin, size_t end,
                            std::vector<int32_t>& out) const {
  size_t open = begin;  // where text began that is not encoded yet
  const auto encode_until = [&](size_t at) {
    if (open == at) return;
    const size_t first = characters_[open].begin;
    encoder.encode(std::string_view(text_).substr(first, text_end(at - 1) - first), out, false);
  };
  for (size_t c = begin; c < end; ++c) {
    if (characters_[c].token < 0) continue;
    encode_until(c);
    out.push_back(characters_[c].token);
    open = c + 1;
  }
  encode_until(end);
}

}  // namespace megalith::objectives
