#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes code_ranges.h: the code points that the split patterns call letter, number and word.

Needs the package unicodedata2 at the version below (Python's own tables are older):
    pip install unicodedata2==16.0.0 && python3 make_code_ranges.py > code_ranges.h
"""
import unicodedata2 as unicode

VERSION = "16.0.0"
# Other_Alphabetic outside categories L, M and N (PropList.txt): circled and squared letters.
ALPHABETIC_SYMBOLS = [(0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)]
JOIN_CONTROL = [(0x200C, 0x200D)]


def ranges(member):
    found, start = [], None
    for code in range(0x110001):
        inside = code < 0x110000 and member(code)
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return found


def category(code):
    return unicode.category(chr(code))


def is_word(code):
    if any(a <= code <= b for a, b in ALPHABETIC_SYMBOLS + JOIN_CONTROL):
        return True
    return category(code)[0] in "LM" or category(code) in ("Nd", "Nl", "Pc")


def write(name, comment, found):
    print(f"\n// {comment}\ninline constexpr CodeRange {name}[] = {{")
    line = "   "
    for first, last in found:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


assert unicode.unidata_version == VERSION, unicode.unidata_version
print(f"""// SPDX-License-Identifier: Apache-2.0
// Written by make_code_ranges.py from the Unicode Character Database {VERSION}. Do not edit.
// A table in the tree, not the system's ICU: the same text must give the same ids on every machine,
// and this is the version that Hugging Face's Oniguruma carries.
// size: tables
#pragma once

#include <cstdint>

namespace megalith::characters {{

inline constexpr const char* kUnicodeVersion = "{VERSION}";

struct CodeRange {{
  uint32_t first;
  uint32_t last;  // included
}};

// clang-format off""")
write("kLetterRanges", r"\p{L}", ranges(lambda code: category(code)[0] == "L"))
write("kNumberRanges", r"\p{N}", ranges(lambda code: category(code)[0] == "N"))
write("kWordRanges", r"\w: Alphabetic, M, Nd, Pc, Join_Control", ranges(is_word))
print("// clang-format on\n\n}  // namespace megalith::characters")
