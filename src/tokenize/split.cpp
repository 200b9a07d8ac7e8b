// SPDX-License-Identifier: Apache-2.0
// Each scanner follows its pattern's alternatives in order; the comments name them. White space is
// where the patterns are subtle: `\s+(?!\S)` takes a run of white space but leaves its last
// character to the word behind it, and `\s*[\r\n]+` takes a run up to its last line break.
#include "tokenize/split.h"

#include <array>
#include <cstdint>

#include "base/check.h"
#include "characters/code_class.h"
#include "characters/tokenizer_class.h"
#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

using characters::CodeClass;

constexpr uint8_t kMulti = 0xFF;  // not ASCII: the class needs the whole character

constexpr std::array<uint8_t, 256> make_byte_classes() {
  std::array<uint8_t, 256> classes{};
  for (size_t byte = 0; byte < 256; ++byte) {
    CodeClass found = CodeClass::other;
    if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) found = CodeClass::letter;
    if (byte >= '0' && byte <= '9') found = CodeClass::number;
    if (byte == ' ' || (byte >= 9 && byte <= 13)) found = CodeClass::space;
    classes[byte] = byte >= 0x80 ? kMulti : static_cast<uint8_t>(found);
  }
  return classes;
}
constexpr std::array<uint8_t, 256> kByteClasses = make_byte_classes();

uint8_t byte_class(const char* at) { return kByteClasses[static_cast<uint8_t>(*at)]; }

struct Character {
  CodeClass code_class;
  uint32_t length;
};

Character character_at(const char* at) {
  const uint8_t quick = byte_class(at);
  if (quick != kMulti) return {static_cast<CodeClass>(quick), 1};
  const characters::CodePoint point = characters::read_utf8(at);
  return {characters::class_of(point.code), point.length};
}

// The end of the run of characters of one class.
template <CodeClass Class>
const char* skip(const char* at, const char* end) {
  for (;;) {
    while (at < end && byte_class(at) == static_cast<uint8_t>(Class)) ++at;
    if (at == end || byte_class(at) != kMulti) return at;
    const characters::CodePoint point = characters::read_utf8(at);
    if (characters::class_of(point.code) != Class) return at;
    at += point.length;
  }
}

bool is_line_break(char c) { return c == '\r' || c == '\n'; }

// \s+(?!\S)|\s+ for the run [at, run_end).
const char* take_space(const char* at, const char* run_end, const char* end) {
  if (run_end == end) return run_end;
  const char* last = characters::previous_character(at, run_end);
  return last == at ? run_end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe; 0 if none. `Fold` also takes capitals and U+017F, the
// long s, which folds to s.
template <bool Fold>
size_t contraction(const char* at, const char* end) {
  const size_t left = static_cast<size_t>(end - at);
  if (left < 2) return 0;
  const auto letter = [&](size_t i) { return Fold ? static_cast<char>(at[i] | 0x20) : at[i]; };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (Fold && left >= 3 && at[1] == '\xC5' && at[2] == '\xBF') return 3;
  if (left < 3) return 0;
  const char second = letter(2);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

const char* scan_all(const char* /*at*/, const char* end) { return end; }

const char* scan_gpt2(const char* at, const char* end) {
  if (*at == '\'') {
    if (const size_t length = contraction<false>(at, end)) return at + length;
  }
  const char* body = *at == ' ' ? at + 1 : at;  // the optional space of the next three
  if (body == end) return end;
  switch (character_at(body).code_class) {
    case CodeClass::letter:
      return skip<CodeClass::letter>(body, end);  //  ?\p{L}+
    case CodeClass::number:
      return skip<CodeClass::number>(body, end);  //  ?\p{N}+
    case CodeClass::other:
      return skip<CodeClass::other>(body, end);  //  ?[^\s\p{L}\p{N}]+
    case CodeClass::space:
      break;
  }
  return take_space(at, skip<CodeClass::space>(at, end), end);
}

// [^\s\p{L}\p{N}]+[\r\n]*
const char* take_symbols(const char* at, const char* end) {
  at = skip<CodeClass::other>(at, end);
  while (at < end && is_line_break(*at)) ++at;
  return at;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
const char* take_space_or_lines(const char* at, const char* end) {
  const char* run_end = skip<CodeClass::space>(at, end);
  for (const char* last = run_end; last > at; --last)
    if (is_line_break(last[-1])) return last;
  return take_space(at, run_end, end);
}

// \s+ at the end of the text, if `TakesLast`, before \s*[\r\n]+|\s+(?!\S)|\s+
template <bool TakesLast>
const char* take_last_space(const char* at, const char* end) {
  if (TakesLast && skip<CodeClass::space>(at, end) == end) return end;
  return take_space_or_lines(at, end);
}

template <int Digits, bool TakesLast = false>
const char* scan_cl100k(const char* at, const char* end) {
  if (*at == '\'') {
    if (const size_t length = contraction<true>(at, end)) return at + length;
  }
  const Character first = character_at(at);
  if (first.code_class == CodeClass::letter) return skip<CodeClass::letter>(at, end);
  if (first.code_class == CodeClass::number) {  // \p{N}{1,Digits}
    for (int count = 0; count < Digits && at < end; ++count) {
      const Character digit = character_at(at);
      if (digit.code_class != CodeClass::number) break;
      at += digit.length;
    }
    return at;
  }
  const char* next = at + first.length;
  const bool has_next = next < end;
  const CodeClass next_class = has_next ? character_at(next).code_class : CodeClass::space;
  if (next_class == CodeClass::letter && !is_line_break(*at))  // [^\r\n\p{L}\p{N}]?\p{L}+
    return skip<CodeClass::letter>(next, end);
  if (first.code_class == CodeClass::other) return take_symbols(at, end);
  if (*at == ' ' && next_class == CodeClass::other) return take_symbols(next, end);
  return take_last_space<TakesLast>(at, end);
}

// U: what a capital may be, W: what a small letter may be; letters without case and marks are both.
enum class Case { neither, upper, lower, both };

Case case_at(const char* at, uint32_t& length) {
  const uint8_t quick = byte_class(at);
  length = 1;
  if (quick != kMulti) {
    if (quick != static_cast<uint8_t>(CodeClass::letter)) return Case::neither;
    return (*at & 0x20) != 0 ? Case::lower : Case::upper;
  }
  const characters::CodePoint point = characters::read_utf8(at);
  const uint16_t flags = characters::tokenizer_classes().of(point.code);
  length = point.length;
  if ((flags & characters::kUpper) != 0) return Case::upper;
  if ((flags & characters::kLower) != 0) return Case::lower;
  const bool is_both =
      (flags & characters::kAnyMark) != 0 || characters::class_of(point.code) == CodeClass::letter;
  return is_both ? Case::both : Case::neither;
}

// The end of U*W+ from `at`, null if it does not match there; `run_end` is that of U*. Where no
// small letter follows, U* gives back to W+ its last character that is both.
const char* take_cased(const char* at, const char* end, const char*& run_end) {
  const char* last_both = nullptr;
  Case found = Case::neither;
  uint32_t length = 0;
  while (at < end && (found = case_at(at, length), found == Case::upper || found == Case::both)) {
    at += length;
    if (found == Case::both) last_both = at;
  }
  run_end = at;
  if (at == end || found != Case::lower) return last_both;
  while (at < end && (found = case_at(at, length), found == Case::lower || found == Case::both))
    at += length;
  return at;
}

template <bool Contractions>
const char* take_contraction(const char* at, const char* end) {
  return Contractions && at < end && *at == '\'' ? at + contraction<true>(at, end) : at;
}

template <int Digits, bool Contractions>
const char* scan_o200k(const char* at, const char* end) {
  constexpr auto finish = take_contraction<Contractions>;
  const Character first = character_at(at);
  if (first.code_class == CodeClass::number) return scan_cl100k<Digits>(at, end);
  const bool is_letter = first.code_class == CodeClass::letter;
  if (is_letter || !is_line_break(*at)) {
    // [^\r\n\p{L}\p{N}]?U*W+, without the optional character too, then [^\r\n\p{L}\p{N}]?U+W*
    const char* const body = is_letter ? at : at + first.length;
    const char* run_end = nullptr;
    uint32_t length = 0;
    if (const char* word = take_cased(body, end, run_end)) return finish(word, end);
    if (!is_letter && case_at(at, length) == Case::both) return finish(body, end);
    if (run_end > body) return finish(run_end, end);
  }
  const char* const symbols = *at == ' ' && at + 1 < end ? at + 1 : at;
  if (character_at(symbols).code_class != CodeClass::other) return take_space_or_lines(at, end);
  at = skip<CodeClass::other>(symbols, end);  //  ?[^\s\p{L}\p{N}]+[\r\n/]*
  while (at < end && (is_line_break(*at) || *at == '/')) ++at;
  return at;
}

}  // namespace

WordScanner word_scanner(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::none:
      return scan_all;
    case SplitPattern::gpt2:
      return scan_gpt2;
    case SplitPattern::llama3:
      return scan_cl100k<3>;
    case SplitPattern::cl100k:
      return scan_cl100k<3, true>;
    case SplitPattern::qwen2:
      return scan_cl100k<1>;
    case SplitPattern::o200k:
      return scan_o200k<3, true>;
    case SplitPattern::tekken:
      return scan_o200k<1, false>;
  }
  MEGA_CHECK(false);
}

const char* scan_marked_word(const char* at, const char* end) {
  const auto is_mark = [end](const char* p) {
    return end - p >= 3 && p[0] == '\xE2' && p[1] == '\x96' && p[2] == '\x81';
  };
  while (at < end && is_mark(at)) at += 3;
  while (at < end && !(*at == '\xE2' && is_mark(at))) ++at;
  return at;
}

// No alternative goes on from a letter or digit (ASCII, so that one byte tells) to a space.
size_t find_safe_cut(std::string_view text, size_t target) {
  if (target >= text.size()) return text.size();
  const auto is_safe = [&](size_t at) {
    const uint8_t before = byte_class(text.data() + at - 1);
    return text[at] == ' ' && (before == static_cast<uint8_t>(CodeClass::letter) ||
                               before == static_cast<uint8_t>(CodeClass::number));
  };
  for (size_t at = target; at > 0; --at)
    if (is_safe(at)) return at;
  return text.size();
}

}  // namespace megalith::tokenize
