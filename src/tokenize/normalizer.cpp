// SPDX-License-Identifier: Apache-2.0
#include "tokenize/normalizer.h"

#include <algorithm>
#include <array>

#include "characters/tokenizer_class.h"
#include "characters/utf8.h"
#include "tokenize/bert_normalizer.h"
#include "tokenize/byte_level.h"

namespace megalith::tokenize {
namespace {

using characters::CodePoint;

bool is_ascii(char c) { return static_cast<uint8_t>(c) < 0x80; }

// Calls change(code point, its bytes, out) for each character; one that appends nothing takes the
// character away. Returns whether the first characters were kept.
template <typename Change>
bool for_each_character(std::string_view text, std::string& out, const Change& change) {
  size_t dropped = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = characters::read_utf8(text.data() + at);
    change(point.code, text.substr(at, point.length), out);
    at += point.length;
    if (out.empty()) dropped = at;
  }
  return dropped == 0;
}

bool run(characters::NormalForm form, std::string_view text, std::string& out) {
  if (std::all_of(text.begin(), text.end(), is_ascii)) {
    out.append(text);
  } else {
    characters::append_normal_form(out, text, form);
  }
  return true;
}

bool run(const BertNormalizer& bert, std::string_view text, std::string& out) {
  return normalize_as_bert(bert, text, out);
}

bool run(Lowercase, std::string_view text, std::string& out) {
  append_lower(text, out);
  return true;
}

bool run(StripAccents, std::string_view text, std::string& out) {
  const auto& classes = characters::tokenizer_classes();
  return for_each_character(text, out, [&](uint32_t code, std::string_view bytes, std::string& o) {
    if ((classes.of(code) & characters::kMark) == 0) o.append(bytes);
  });
}

bool run(Nmt, std::string_view text, std::string& out) {
  return for_each_character(text, out, [](uint32_t code, std::string_view bytes, std::string& o) {
    const bool removed = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) ||
                         code == 0x7F || code == 0x8F || code == 0x9F;
    const bool space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                       (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                       code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    if (space) {
      o.push_back(' ');
    } else if (!removed) {
      o.append(bytes);
    }
  });
}

bool run(StripSpace strip, std::string_view text, std::string& out) {
  const auto& classes = characters::tokenizer_classes();
  const auto is_space = [&](const char* at) {
    return (classes.of(characters::read_utf8(at).code) & characters::kWhiteSpace) != 0;
  };
  const char* begin = text.data();
  const char* end = begin + text.size();
  while (strip.left && begin < end && is_space(begin)) begin += characters::read_utf8(begin).length;
  while (strip.right && begin < end) {
    const char* last = characters::previous_character(begin, end);
    if (!is_space(last)) break;
    end = last;
  }
  out.append(begin, end);
  return begin == text.data();
}

bool run(const Prepend& prepend, std::string_view text, std::string& out) {
  if (!text.empty()) out.append(prepend.text);
  out.append(text);
  return true;
}

bool run(const ReplaceText& replace, std::string_view text, std::string& out) {
  size_t at = 0;
  for (size_t found = text.find(replace.from); found != std::string_view::npos;
       found = text.find(replace.from, at)) {
    out.append(text.substr(at, found - at));
    out.append(replace.to);
    at = found + replace.from.size();
  }
  out.append(text.substr(at));
  return !(replace.to.empty() && text.starts_with(replace.from));
}

bool run(const ReplaceMatches& replace, std::string_view text, std::string& out) {
  std::vector<Regex::Match> matches;
  replace.regex->find(text, matches);
  for (const Regex::Match& match : matches)
    out.append(match.is_match ? replace.to : text.substr(match.begin, match.end - match.begin));
  return matches.empty() || !matches[0].is_match || matches[0].begin == matches[0].end ||
         !replace.to.empty();
}

bool run(ByteCharacters, std::string_view text, std::string& out) {
  out.append(bytes_to_token(text));
  return true;
}

bool run(const CompiledRules& rules, std::string_view text, std::string& out) {
  return rules->append(text, out);
}

bool run(const SentencePieceNormalizer& step, std::string_view text, std::string& out) {
  normalize_as_sentencepiece(step, text, out);
  return true;
}

}  // namespace

Normalizer::Result Normalizer::apply(std::string_view text, Scratch& scratch) const {
  Result result{text, true};
  size_t next = 0;
  for (const NormalizerStep& step : steps_) {
    std::string& out = scratch.text[next];
    next = 1 - next;
    out.clear();
    const bool kept = std::visit([&](const auto& s) { return run(s, result.text, out); }, step);
    result = {out, result.keeps_start && kept};
  }
  return result;
}

std::string Normalizer::apply(std::string_view text) const {
  Scratch scratch;
  return std::string(apply(text, scratch).text);
}

std::string unmark_spaces(std::string_view token) {
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const bool mark = token.substr(at).starts_with(kSpaceMark);
    result.push_back(mark ? ' ' : token[at]);
    at += mark ? kSpaceMark.size() : 1;
  }
  return result;
}

}  // namespace megalith::tokenize
