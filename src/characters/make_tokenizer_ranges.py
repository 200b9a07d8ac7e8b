#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizer_ranges.h, cluster_ranges.h and case_ranges.h: the classes of code points by which Hugging Face `tokenizers` decides.

Its parts carry the tables of different versions of Unicode, some of them too old to be had, so each
code point is tried on the part itself:
    pip install tokenizers==0.23.3
    python3 make_tokenizer_ranges.py classes > tokenizer_ranges.h
    python3 make_tokenizer_ranges.py clusters > cluster_ranges.h
    python3 make_tokenizer_ranges.py cases > case_ranges.h
"""
import struct
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

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


def charsmap(key):
    """SentencePiece's compiled rules with one rule: `key` becomes Y. Each byte of the key has a block of 256 units."""
    blocks = [256 * (i + 1) for i in range(len(key) + 1)]
    units = [0] * (blocks[-1] + 256)
    units[0], units[blocks[-1]] = blocks[0] << 10, 1 << 31
    for i, byte in enumerate(key):
        place = blocks[i] ^ byte
        units[place] = (place ^ blocks[i + 1]) << 10 | byte | (i + 1 == len(key)) << 8
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"Y\0"


def is_whole(first, second):
    """True if both are one grapheme cluster: then the rule of its first character takes all of it."""
    return first != "\0" and normalizers.Precompiled(charsmap(first.encode())).normalize_str(first + second) == "Y"


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


def head(declarations=""):
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Written by make_tokenizer_ranges.py with `tokenizers` {VERSION}. Do not edit.
// size: tables
#pragma once

#include <cstdint>

#include "characters/code_ranges.h"

namespace megalith::characters {{
{declarations}
// clang-format off""")


def classes():
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    clean = normalizers.BertNormalizer(**{**off, "clean_text": True})
    accents = normalizers.BertNormalizer(**{**off, "strip_accents": True})
    marks, lower = normalizers.StripAccents(), normalizers.Lowercase()
    punctuation, digits = pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.Whitespace()
    head("""
/// Codes first, first + step, ... last, whose lower case lies `distance` further on.
struct LowerRun {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t distance;
};
""")
    write("CodeRange", "kRemovedRanges", "What BertNormalizer's clean_text takes out.", ranges(lambda c: clean.normalize_str(c) == ""))
    write("CodeRange", "kNonspacingRanges", "What BertNormalizer's strip_accents takes out.",
          ranges(lambda c: accents.normalize_str(c) == ""))
    write("CodeRange", "kMarkRanges", "What StripAccents takes out.", ranges(lambda c: marks.normalize_str(c) == ""))
    write("CodeRange", "kPunctuationRanges", "What BertPreTokenizer and Punctuation call punctuation.",
          ranges(lambda c: parts_of(punctuation, c) == 3))
    write("CodeRange", "kNumericRanges", "What Digits calls a digit.", ranges(lambda c: parts_of(digits, c) == 3))
    write("CodeRange", "kRegexWordRanges", "What Whitespace calls part of a word.", ranges(lambda c: parts_of(words, c) == 1))
    write("LowerRun", "kLowerRuns", "Lower case.", lower_runs(lower.normalize_str))


def clusters():
    after_a = normalizers.Precompiled(charsmap(b"a"))
    head()
    write("CodeRange", "kJoiningRanges", "What joins the grapheme cluster before it.",
          ranges(lambda c: c > "\x7f" and after_a.normalize_str("a" + c) == "Y"))
    # Longer clusters are not looked at, so what has four bytes need not be tried with the mark's two.
    write("CodeRange", "kAloneRanges", "What nothing joins.", ranges(lambda c: c < "\U00010000" and not is_whole(c, "\u0301")))
    write("CodeRange", "kPrependedRanges", "What joins the character behind it.",
          ranges(lambda c: (c < "\U00020000" or "\U000e0000" <= c < "\U000e2000") and is_whole(c, "a")))


def cases():
    """Every second code of many scripts is a capital: ranges have a step."""
    head("""
/// Codes first, first + step, ... last.
struct SteppedRange {
  uint32_t first;
  uint32_t last;
  uint32_t step;
};
""")
    for name, regex, comment in (("kUpperRanges", r"[\p{Lu}\p{Lt}]", "Capitals."), ("kLowerRanges", r"\p{Ll}", "Small letters."),
                                 ("kAnyMarkRanges", r"\p{M}", "Marks, of today's Unicode.")):
        split = pre_tokenizers.Split(Regex(regex), "isolated")
        found = [code for code in scalar_values() if len(split.pre_tokenize_str("0" + chr(code) + "0")) == 3]
        rows = []
        for code in found:
            if rows and (step := code - rows[-1][1]) <= 2 and rows[-1][2] in (0, step):
                rows[-1][1:] = code, step
            else:
                rows.append([code, code, 0])
        write("SteppedRange", name, comment, [(first, last, step or 1) for first, last, step in rows])


assert tokenizers.__version__ == VERSION, tokenizers.__version__
{"classes": classes, "clusters": clusters, "cases": cases}[sys.argv[1]]()
print("\n// clang-format on\n\n}  // namespace megalith::characters")
