// SPDX-License-Identifier: Apache-2.0
#include "text_training/corpus_words.h"

#include <algorithm>
#include <map>

#include "characters/utf8.h"

namespace megalith::text {

void CorpusWords::add(std::string_view document) {
  characters::require_utf8(document, "the document");
  const auto normalized = normalizer_.apply(document, scratch_);
  if (normalized.text.empty()) return;
  pre_tokenizer_.cut(normalized.text, normalized.keeps_start, words_);
  for (const tokenize::Words::Word place : words_.words) {
    const std::string_view word = words_.text.substr(place.begin, place.end - place.begin);
    const auto begins_character = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    const bool is_long =
        word.size() > kMostWordCharacters &&
        std::count_if(word.begin(), word.end(), begins_character) > int64_t{kMostWordCharacters};
    if (!is_long) counts_.add(word, WordCounts::hash_of(word), 1);
  }
}

std::vector<std::pair<uint32_t, int64_t>> CorpusWords::characters() const {
  std::map<uint32_t, int64_t> found;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const std::string_view word = counts_.word(i);
    for (size_t at = 0; at < word.size();) {
      const characters::CodePoint point = characters::read_utf8(word.data() + at);
      found[point.code] += counts_.count(i);
      at += point.length;
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace megalith::text
