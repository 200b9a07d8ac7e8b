#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizer_ranges.h: the classes of code points by which Hugging Face `tokenizers` decides.

Its parts carry the tables of different versions of Unicode, some of them too old to be had, so each
code point is tried on the part itself:
    pip install tokenizers==0.23.3 && python3 make_tokenizer_ranges.py > tokenizer_ranges.h
"""
import tokenizers
from tokenizers import normalizers, pre_tokenizers

VERSION = "0.23.3"


def scalar_values():
    return (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def ranges(member):
    found = []
    for code in scalar_values():
        if not member(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def lower_runs(lower):
    """(first, last, step, distance): codes first, first + step, ... last lie `distance` from their lower case."""
    runs = []
    for code in scalar_values():
        small = lower(chr(code))
        if small == chr(code) or len(small) > 1:  # only U+0130 becomes two characters
            assert len(small) == 1 or code == 0x130
            continue
        distance = ord(small) - code
        if runs and runs[-1][3] == distance and (step := code - runs[-1][1]) <= 2 and runs[-1][2] in (0, step):
            runs[-1][1:3] = code, step
        else:
            runs.append([code, code, 0, distance])
    return [(first, last, step or 1, distance) for first, last, step, distance in runs]


def write(kind, name, comment, rows):
    print(f"\n// {comment}\ninline constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(f"0x{n:X}" if i < 2 else str(n) for i, n in enumerate(row)) + "},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def parts_of(pre_tokenizer, character):
    return len(pre_tokenizer.pre_tokenize_str("a" + character + "a"))


assert tokenizers.__version__ == VERSION, tokenizers.__version__
off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
clean = normalizers.BertNormalizer(**{**off, "clean_text": True})
accents = normalizers.BertNormalizer(**{**off, "strip_accents": True})
marks, lower = normalizers.StripAccents(), normalizers.Lowercase()
punctuation, digits = pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)
words = pre_tokenizers.Whitespace()
print(f"""// SPDX-License-Identifier: Apache-2.0
// Written by make_tokenizer_ranges.py with `tokenizers` {VERSION}. Do not edit.
// size: tables
#pragma once

#include <cstdint>

#include "characters/code_ranges.h"

namespace megalith::characters {{

/// Codes first, first + step, ... last, whose lower case lies `distance` further on.
struct LowerRun {{
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t distance;
}};

// clang-format off""")
write("CodeRange", "kRemovedRanges", "What BertNormalizer's clean_text takes out.", ranges(lambda c: clean.normalize_str(c) == ""))
write("CodeRange", "kNonspacingRanges", "What BertNormalizer's strip_accents takes out.",
      ranges(lambda c: accents.normalize_str(c) == ""))
write("CodeRange", "kMarkRanges", "What StripAccents takes out.", ranges(lambda c: marks.normalize_str(c) == ""))
write("CodeRange", "kPunctuationRanges", "What BertPreTokenizer and Punctuation call punctuation.",
      ranges(lambda c: parts_of(punctuation, c) == 3))
write("CodeRange", "kNumericRanges", "What Digits calls a digit.", ranges(lambda c: parts_of(digits, c) == 3))
write("CodeRange", "kRegexWordRanges", "What Whitespace calls part of a word.", ranges(lambda c: parts_of(words, c) == 1))
write("LowerRun", "kLowerRuns", "Lower case.", lower_runs(lower.normalize_str))
print("\n// clang-format on\n\n}  // namespace megalith::characters")
