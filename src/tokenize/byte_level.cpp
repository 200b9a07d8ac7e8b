// SPDX-License-Identifier: Apache-2.0
#include "tokenize/byte_level.h"

#include <algorithm>
#include <numeric>

#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

constexpr uint32_t kCharacterEnd = 0x100 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<uint16_t, 256> make_characters() {
  std::array<uint16_t, 256> characters{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    characters[static_cast<size_t>(byte)] =
        stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
  return characters;
}
constexpr std::array<uint16_t, 256> kCharacters = make_characters();

// character -> byte, or -1.
constexpr std::array<int16_t, kCharacterEnd> make_bytes() {
  std::array<int16_t, kCharacterEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kCharacterEnd> kBytes = make_bytes();

}  // namespace

const std::array<uint16_t, 256>& byte_characters() { return kCharacters; }

std::array<uint8_t, 256> bytes_by_character() {
  std::array<uint8_t, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::sort(bytes.begin(), bytes.end(),
            [](uint8_t a, uint8_t b) { return kCharacters[a] < kCharacters[b]; });
  return bytes;
}

std::string bytes_to_token(std::string_view bytes) {
  std::string token;
  token.reserve(bytes.size() * 2);
  for (const char byte : bytes)
    characters::append_utf8(token, kCharacters[static_cast<uint8_t>(byte)]);
  return token;
}

std::optional<std::string> token_to_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const characters::CodePoint point = characters::read_utf8(token.data() + at);
    if (point.code >= kCharacterEnd || kBytes[point.code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[point.code]));
    at += point.length;
  }
  return bytes;
}

}  // namespace megalith::tokenize
