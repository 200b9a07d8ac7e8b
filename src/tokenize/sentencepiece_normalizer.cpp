// SPDX-License-Identifier: Apache-2.0
#include "tokenize/sentencepiece_normalizer.h"

#include <algorithm>

#include "characters/utf8.h"
#include "tokenize/normalizer.h"

namespace megalith::tokenize {
namespace {

using Rule = CharsMap::Rule;

// What the text begins with, and what becomes of it.
Rule first_rule(const SentencePieceNormalizer& step, std::string_view text) {
  if (step.kept) {
    const size_t length = step.kept->longest_prefix(text).length;
    if (length > 0) return {length, text.substr(0, length)};
  }
  if (step.rules) {
    if (const auto rule = step.rules->longest(text)) return *rule;
  }
  const size_t length = characters::read_utf8(text.data()).length;
  return {length, text.substr(0, length)};
}

// The length of the ASCII at the start, but spaces, that certainly nothing changes.
size_t plain_length(const SentencePieceNormalizer& step, std::string_view text) {
  if (step.kept) return 0;
  const auto is_plain = [](char c) { return static_cast<uint8_t>(c) < 0x80 && c != ' '; };
  size_t at = 0;
  if (!step.rules) {
    while (at < text.size() && is_plain(text[at])) ++at;
    return at;
  }
  while (at + 1 < text.size() && is_plain(text[at]) && static_cast<uint8_t>(text[at + 1]) < 0x80 &&
         step.rules->leaves_ascii(text[at], text[at + 1]))
    ++at;
  return at;
}

void append_escaped(const SentencePieceNormalizer& step, std::string_view text, std::string& out) {
  if (!step.escape_whitespaces) {
    out.append(text);
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    out.append(text.substr(at, space - at));
    if (space < text.size()) out.append(kSpaceMark);
    at = space + 1;
  }
}

}  // namespace

void normalize_as_sentencepiece(const SentencePieceNormalizer& step, std::string_view text,
                                std::string& out) {
  const size_t before = out.size();
  const bool removes = step.remove_extra_whitespaces;
  while (removes && !text.empty()) {
    const Rule rule = first_rule(step, text);
    if (rule.result != " ") break;
    text.remove_prefix(rule.length);
  }
  if (text.empty()) return;
  const std::string_view space = step.escape_whitespaces ? kSpaceMark : " ";
  if (step.add_dummy_prefix && !step.whitespace_as_suffix) out.append(space);
  bool after_space = removes;
  while (!text.empty()) {
    if (const size_t length = plain_length(step, text); length > 0) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
      after_space = false;
      continue;
    }
    const Rule rule = first_rule(step, text);
    std::string_view result = rule.result;
    while (after_space && result.starts_with(' ')) result.remove_prefix(1);
    if (!result.empty()) {
      append_escaped(step, result, out);
      after_space = removes && result.ends_with(' ');
    }
    text.remove_prefix(rule.length);
  }
  while (removes && std::string_view(out).substr(before).ends_with(space))
    out.resize(out.size() - space.size());
  if (step.add_dummy_prefix && step.whitespace_as_suffix) out.append(space);
}

}  // namespace megalith::tokenize
