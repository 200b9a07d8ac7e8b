// SPDX-License-Identifier: Apache-2.0
// What the split patterns ask of a code point: letter (\p{L}), number (\p{N}), white space (\s) or
// other; and \w for added tokens that must stand alone. The ranges come from the Unicode Character
// Database (code_ranges.h); here they are folded at compile time into two bits per code point,
// 50 KiB of read-only data of which a text touches a few cache lines per script.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace megalith::characters {

enum class CodeClass : uint8_t { other = 0, letter = 1, number = 2, space = 3 };

/// All code points from here on are `other`.
inline constexpr uint32_t kClassifiedEnd = 0x32400;

/// Two bits per code point, four to the byte, low bits first. Filled in code_class.cpp.
extern const std::array<uint8_t, kClassifiedEnd / 4> kClassTable;

inline CodeClass class_of(uint32_t code) {
  if (code >= kClassifiedEnd) return CodeClass::other;
  return static_cast<CodeClass>((kClassTable[code >> 2] >> ((code & 3) * 2)) & 3);
}

/// \w of the Unicode regular expressions: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_code(uint32_t code);

/// The version of the tables, for `doctor`.
std::string_view unicode_version();

}  // namespace megalith::characters
