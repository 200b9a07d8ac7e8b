// SPDX-License-Identifier: Apache-2.0
// UTF-8: validation, reading and writing of code points, and repair of broken text. Repair puts one
// U+FFFD in place of each maximal part that could have begun a character (Unicode 16, section 3.9,
// table 3-8), as Hugging Face's decoders do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace megalith::characters {

/// The offset of the first byte that is not part of well-formed UTF-8, or npos if there is none.
size_t find_invalid_utf8(std::string_view text);

/// Throws UserError with the byte offset if `text` is not UTF-8; `what` names it ("the document").
void require_utf8(std::string_view text, std::string_view what);

/// Appends the code point, which must be a Unicode scalar value.
void append_utf8(std::string& out, uint32_t code);

/// Appends `bytes` with every ill-formed part replaced by U+FFFD. With `hold_tail`, a final part
/// that more bytes could complete is left out. Returns the number of bytes consumed.
size_t append_repaired_utf8(std::string& out, std::string_view bytes, bool hold_tail = false);

/// A code point and its length in bytes.
struct CodePoint {
  uint32_t code;
  uint32_t length;
};

/// Reads one code point of well-formed UTF-8.
inline CodePoint read_utf8(const char* at) {
  const auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(at[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  return {
      ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F),
      4};
}

/// The start of the character that ends at `end` (well-formed, begin < end).
inline const char* previous_character(const char* begin, const char* end) {
  do {
    --end;
  } while (end > begin && (static_cast<uint8_t>(*end) & 0xC0) == 0x80);
  return end;
}

/// Characters of well-formed text.
inline int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

}  // namespace megalith::characters
