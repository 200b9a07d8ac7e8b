// SPDX-License-Identifier: Apache-2.0
#include "tokenize/byte_fallback.h"

#include <algorithm>

#include <fmt/format.h>

#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

constexpr uint32_t kCodes = 0x110000;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = token[3] == '+' ? 0 : hex_digit(token[3]);  // a sign counts as a digit there
  const int low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

void append_byte_run(std::string& text, std::string_view bytes) {
  if (characters::find_invalid_utf8(bytes) == std::string_view::npos) {
    text.append(bytes);
  } else {
    for (size_t i = 0; i < bytes.size(); ++i) text.append("\xEF\xBF\xBD");
  }
}

CharacterSymbols::CharacterSymbols() : pages_(kCodes / kPageCodes, 0), ids_(kPageCodes, -1) {
  byte_ids.fill(-1);
}

void CharacterSymbols::set(uint32_t code, int32_t id) {
  uint32_t& page = pages_[code / kPageCodes];
  if (page == 0) {
    page = static_cast<uint32_t>(ids_.size() / kPageCodes);
    ids_.resize(ids_.size() + kPageCodes, -1);
  }
  ids_[page * kPageCodes + code % kPageCodes] = id;
}

bool CharacterSymbols::append_bytes(std::string_view character,
                                    std::vector<int32_t>& symbols) const {
  const auto id_of_byte = [this](char c) { return byte_ids[static_cast<uint8_t>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return id_of_byte(c) < 0; }))
    return false;
  for (const char c : character) symbols.push_back(id_of_byte(c));
  return true;
}

void CharacterSymbols::append(std::string_view text, std::vector<int32_t>& symbols) const {
  bool unknown = false;  // a token that is still to be written
  const auto write_unknown = [&] {
    if (unknown) symbols.push_back(unknown_id);
    unknown = false;
  };
  for (size_t at = 0; at < text.size();) {
    const characters::CodePoint point = characters::read_utf8(text.data() + at);
    const std::string_view character = text.substr(at, point.length);
    at += point.length;
    if (const int32_t id = id_of(point.code); id >= 0) {
      write_unknown();
      symbols.push_back(id);
    } else if (!append_bytes(character, symbols) && unknown_id >= 0) {
      if (!fuse_unknown) write_unknown();
      unknown = true;
    }
  }
  write_unknown();
}

}  // namespace megalith::tokenize
