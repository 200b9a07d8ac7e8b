// SPDX-License-Identifier: Apache-2.0
#include "characters/utf8.h"

#include "base/error.h"
#include "characters/utf8_fast.h"

namespace megalith::characters {
namespace {

// A well-formed character, or the maximal part that began one.
struct Part {
  size_t length;
  bool valid;       // well-formed
  bool incomplete;  // cut off by the end of the text: more bytes could complete it
};

// Table 3-7 of the Unicode standard: after some lead bytes the second byte has a narrower range,
// which excludes overlong forms, surrogates and values above U+10FFFF.
Part read_part(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {i, false, true};
    const uint8_t next = byte(at + i);
    if (next < (i == 1 ? low : 0x80) || next > (i == 1 ? high : 0xBF)) return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string_view::npos;
  for (size_t at = 0; at < text.size();) {
    const Part part = read_part(text, at);
    if (!part.valid) return at;
    at += part.length;
  }
  return std::string_view::npos;
}

void require_utf8(std::string_view text, std::string_view what) {
  const size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return;
  throw UserError("{} is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8 first", what,
                  at, static_cast<uint8_t>(text[at]));
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t append_repaired_utf8(std::string& out, std::string_view bytes, bool hold_tail) {
  if (is_utf8(bytes)) {
    out.append(bytes);
    return bytes.size();
  }
  size_t at = 0;
  while (at < bytes.size()) {
    const Part part = read_part(bytes, at);
    if (part.valid) {
      out.append(bytes, at, part.length);
    } else if (part.incomplete && hold_tail) {
      break;
    } else {
      out.append("\xEF\xBF\xBD");
    }
    at += part.length;
  }
  return at;
}

}  // namespace megalith::characters
