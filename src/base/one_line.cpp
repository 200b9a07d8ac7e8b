// SPDX-License-Identifier: Apache-2.0
#include "base/one_line.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace megalith {
namespace {

/// Bytes of the well-formed UTF-8 character at `at`, 0 if there is none (Unicode 16, table 3-7).
size_t character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (at + length > text.size()) return 0;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

bool is_control(std::string_view text, size_t at, size_t length) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (length == 1) return byte < 0x20 || byte == 0x7F;
  return length == 2 && byte == 0xC2 && static_cast<uint8_t>(text[at + 1]) < 0xA0;
}

}  // namespace

std::string one_line(std::string_view text, size_t most_bytes) {
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = character_at(text, at);
    const size_t step = length == 0 ? 1 : length;
    if (at + step > most_bytes) return line + "...";
    const char c = text[at];
    if (c == '\n' || c == '\r' || c == '\t') {
      line += ' ';
    } else if (length == 0 || is_control(text, at, length)) {
      for (size_t i = 0; i < step; ++i)
        fmt::format_to(std::back_inserter(line), "\\x{:02x}", static_cast<uint8_t>(text[at + i]));
    } else {
      line.append(text, at, length);
    }
    at += step;
  }
  return line;
}

}  // namespace megalith
