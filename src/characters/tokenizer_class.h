// SPDX-License-Identifier: Apache-2.0
// What the normalizers and pre-tokenizers of Hugging Face ask of a code point. Its parts carry the
// tables of several versions of Unicode, and ids depend on them: tokenizer_ranges.h has each as it
// is there, not as the newest version would say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace megalith::characters {

enum TokenizerClass : uint16_t {
  kRemoved = 1,       // by BertNormalizer's clean_text: control, format and private characters
  kNonspacing = 2,    // by BertNormalizer's strip_accents
  kMark = 4,          // by StripAccents
  kPunctuation = 8,   // of BertPreTokenizer and Punctuation
  kNumeric = 16,      // of Digits
  kRegexWord = 32,    // \w of Whitespace
  kWhiteSpace = 64,   // White_Space
  kHasLower = 128,    // lower_of() differs
  kJoining = 256,     // joins the grapheme cluster before it
  kAlone = 512,       // nothing joins its cluster
  kPrepended = 1024,  // joins the character behind it
  kUpper = 2048,      // capitals and title case
  kLower = 4096,
  kAnyMark = 8192,  // a mark of today's Unicode
};

/// The classes of each code point: pages of 256, equal ones shared.
class TokenizerClasses {
 public:
  TokenizerClasses();
  uint16_t of(uint32_t code) const { return flags_[pages_[code >> 8] | (code & 0xFF)]; }

 private:
  std::array<uint32_t, 0x1100> pages_{};
  std::vector<uint16_t> flags_;
};

const TokenizerClasses& tokenizer_classes();

/// The lower case of one code point, by itself (no final sigma); U+0130, which becomes two, is 'i'
/// here: U+0307 follows it.
uint32_t lower_of(uint32_t code);

/// The length in bytes of the grapheme cluster that begins at `at`. One of more than five bytes may
/// be told as several, each of more than five or of one character: that is all Precompiled asks.
size_t cluster_length(std::string_view text, size_t at);

}  // namespace megalith::characters
