// SPDX-License-Identifier: Apache-2.0
// Vocabularies and walks that the tests of this room share.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammars/grammar_state.h"

namespace megalith::grammars {

/// Each byte a token, its id the byte.
inline std::shared_ptr<const TokenTrie> byte_tokens() {
  static const auto trie = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<const TokenTrie>(texts);
  }();
  return trie;
}

/// All bytes and random pieces: of JSON, of words and of broken UTF-8, some twice.
inline std::vector<std::string> random_vocabulary(std::mt19937& random, size_t pieces) {
  static const std::vector<std::string> parts = {
      "\"",   "{",        "}",    "[",    "]",        ":",
      ",",    " ",        "\n",   "\t",   "  ",       "\\",
      "\\u",  "00",       "true", "null", "a",        "b",
      "name", "0",        "1",    "12",   "-",        ".5",
      "e1",   "\xC3\xA9", "\xC3", "\xA9", "\xE2\x82", "\xF0\x9F\x98\x80",
      "\": ", "\", \"",   "\"}",  "}}",   "\"]",      "]}",
      "\"]}", "}]",       "]]",   "[[",   "x",        "2024",
      "-01",  "@",        "\\n",  "d83d", "\\ude00",  "\x01",
      "\x7F", "tr",       "ue",   "id",   "kind",     "abcdefghijklmnopqrstuvwxyz"};
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  std::uniform_int_distribution<size_t> part(0, parts.size() - 1), count(1, 4);
  for (size_t i = 0; i < pieces; ++i) {
    std::string text;
    for (size_t left = count(random); left > 0; --left) text += parts[part(random)];
    texts.push_back(text);
  }
  texts.emplace_back();  // special
  texts.push_back(texts[300 % texts.size()]);
  std::shuffle(texts.begin(), texts.end(), random);
  return texts;
}

inline std::vector<uint64_t> mask_of(const GrammarState& state) {
  std::vector<uint64_t> mask(mask_words(state.tokens().num_ids()));
  state.mask(mask);
  return mask;
}
inline bool has(const std::vector<uint64_t>& mask, int32_t id) {
  return ((mask[static_cast<size_t>(id) / 64] >> (id % 64)) & 1) != 0;
}
inline std::vector<int32_t> ids_of(const std::vector<uint64_t>& mask) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(mask.size() * 64); ++id)
    if (has(mask, id)) ids.push_back(id);
  return ids;
}

/// How much of a text a grammar takes byte by byte, and whether it may end there.
struct Taken {
  size_t bytes = 0;
  bool can_end = false;
};
inline Taken take(const Grammar& grammar, std::string_view text) {
  GrammarState state(std::make_shared<TokenMatcher>(grammar, byte_tokens()));
  size_t bytes = 0;
  while (bytes < text.size() && state.accept(static_cast<uint8_t>(text[bytes]))) ++bytes;
  return {bytes, state.can_end()};
}
inline bool fits(const Grammar& grammar, std::string_view text) {
  const Taken taken = take(grammar, text);
  return taken.bytes == text.size() && taken.can_end;
}

/// One of the allowed tokens, most often one that does not go deeper.
inline int32_t draw(const std::vector<int32_t>& ids, const GrammarState& state,
                    std::mt19937& random) {
  std::uniform_int_distribution<size_t> place(0, ids.size() - 1);
  int32_t id = ids[place(random)];
  for (int tries = 0; tries < 3; ++tries) {
    GrammarState next = state;
    if (!next.accept(id)) return -1;
    if (next.can_end() || next.depth() <= 3) break;
    id = ids[place(random)];
  }
  return id;
}

/// Goes on byte by byte, closing what is open where that may be, until the text may end.
inline std::optional<std::string> finished(std::string text, GrammarState state,
                                           std::mt19937& random) {
  const TokenTrie& tokens = state.tokens();
  for (int step = 0; step < 600 && !state.can_end(); ++step) {
    std::vector<int32_t> best;
    size_t least = SIZE_MAX;
    for (const int32_t id : ids_of(mask_of(state))) {
      if (tokens.text(id).size() != 1) continue;
      GrammarState next = state;
      if (!next.accept(id) || next.depth() > least) continue;
      if (next.depth() < least) best.clear();
      least = next.depth();
      best.push_back(id);
    }
    if (best.empty()) return std::nullopt;
    const int32_t id = best[random() % best.size()];
    if (!state.accept(id)) return std::nullopt;
    text += tokens.text(id);
  }
  return state.can_end() ? std::optional(text) : std::nullopt;
}

/// A random text of so many tokens, and then what ends it.
inline std::optional<std::string> walked(GrammarState state, int most, std::mt19937& random) {
  std::string text;
  for (int step = 0; step < most; ++step) {
    const std::vector<int32_t> ids = ids_of(mask_of(state));
    if (ids.empty()) break;
    const int32_t id = draw(ids, state, random);
    if (!state.accept(id)) return std::nullopt;
    text += state.tokens().text(id);
  }
  return finished(std::move(text), state, random);
}

inline Grammar schema(std::string_view text, Whitespace whitespace = Whitespace::flexible) {
  return Grammar::parse_json_schema(text, "schema.json", whitespace);
}

}  // namespace megalith::grammars
