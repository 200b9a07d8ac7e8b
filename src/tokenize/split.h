// SPDX-License-Identifier: Apache-2.0
// Cutting text into the words that byte-pair merges never cross. The patterns are those published
// with GPT-2, Llama 3, cl100k, Qwen2, o200k and Tekken as regular expressions. Here each is a
// hand-written scanner over UTF-8, because a backtracking engine is ten to fifty times slower and
// some inputs make it quadratic. A scanner reads each byte a bounded number of times, whatever the
// text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace megalith::tokenize {

enum class SplitPattern {
  none,  // the whole text is one word
  gpt2,  // also r50k and p50k
  llama3,
  cl100k,  // llama3, but all white space that ends the text is one word
  qwen2,   // llama3 with single digits
  o200k,   // words end where capitals begin
  tekken,  // o200k with single digits and without contractions
};

/// The pattern's name on the command line, and back.
std::string_view pattern_name(SplitPattern pattern);
std::optional<SplitPattern> pattern_of_name(std::string_view name);

/// The regular expression as tokenizer files spell it (empty for `none`).
std::string_view pattern_regex(SplitPattern pattern);
/// The pattern that a file's regular expression means, in any of its known spellings.
std::optional<SplitPattern> pattern_of_regex(std::string_view regex);

/// Finds the end of the word that begins at `at`. Needs at < end and well-formed UTF-8.
using WordScanner = const char* (*)(const char* at, const char* end);
WordScanner word_scanner(SplitPattern pattern);

/// The end of the word that begins at `at` where words begin with spaces, spelled as marks
/// (U+2581): before the next mark that follows something else.
const char* scan_marked_word(const char* at, const char* end);

/// The largest offset <= `target`, and > 0, at which every pattern except `none` has a word
/// boundary whatever comes before; text.size() if there is none. Long texts are cut there, for
/// several threads or to bound memory, without changing the words.
size_t find_safe_cut(std::string_view text, size_t target);

}  // namespace megalith::tokenize
