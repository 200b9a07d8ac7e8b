// SPDX-License-Identifier: Apache-2.0
// Tests only: random text whose characters are drawn so that the split patterns' turning points are
// frequent, a built-in text, and the texts on disk where the checkout has them.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "characters/utf8.h"

namespace megalith::tokenize {

/// `characters` characters, half from the list of turning points and half from all of Unicode.
inline std::string random_text(std::mt19937& draw, size_t characters) {
  static constexpr uint32_t kTurning[] = {
      'a', 'b',    's',    't',   'r',    'e',   'v',    'm',     'l',     'd',   'S',    'L',
      'E', 'R',    '\'',   '\'',  ' ',    ' ',   ' ',    '\n',    '\n',    '\r',  '\t',   0xB,
      '0', '7',    '.',    '!',   '<',    '|',   0x85,   0xA0,    0xE9,    0x17F, 0x2003, 0x2028,
      '9', 0x3000, 0x4E2D, 0x660, 0x2167, 0x301, 0x200D, 0x1F600, 0x1D400, 0xB2,  0x1C,   0x180E};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    uint32_t code = kTurning[draw() % std::size(kTurning)];
    if (draw() % 2 == 0) {
      do {
        code = static_cast<uint32_t>(draw() % 0x110000) >> (draw() % 12);
      } while (code >= 0xD800 && code < 0xE000);
    }
    characters::append_utf8(text, code);
  }
  return text;
}

/// English with quotes, numbers, all line ends and other scripts.
inline std::string built_in_text() {
  return "It is a truth universally acknowledged, that a single man in possession of a good "
         "fortune, must be in want of a wife.\n\nHowever little known the feelings or views of "
         "such "
         "a man may be on his first entering a neighbourhood, this truth is so well fixed in the "
         "minds of the surrounding families, that he's considered as the rightful property of some "
         "one or other of their daughters; they'd say in 1813: \"We're sure you've heard\"...  "
         "\t\r\n  \xC3\xA9t\xC3\xA9, na\xC3\xAFve, \xE4\xB8\xAD\xE6\x96\x87 "
         "\xF0\x9F\x99\x82\n";
}

/// Books and encyclopaedia beside the checkout; empty if there are none (tests that need them then
/// skip and say why).
inline std::vector<std::string> real_texts() {
  const std::filesystem::path folder =
      std::filesystem::path(MEGA_SOURCE_DIR) / "../shared/data/text";
  std::vector<std::string> texts;
  for (const char* name : {"tinyshakespeare.txt", "wikitext2-valid.txt"})
    if (std::filesystem::exists(folder / name)) texts.push_back(read_file(folder / name));
  return texts;
}
inline constexpr const char* kNoRealTexts =
    "needs ../shared/data/text/tinyshakespeare.txt or wikitext2-valid.txt beside the checkout";

}  // namespace megalith::tokenize
