// SPDX-License-Identifier: Apache-2.0
// The words of a corpus as a tokenizer's normalizer and pre-tokenizer give them, each once with its
// count: what training a vocabulary of characters needs of the corpus.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text_training/word_counts.h"
#include "tokenize/normalizer.h"
#include "tokenize/pre_tokenizer.h"

namespace megalith::text {

/// Longer words are no words of a language; they are left out.
inline constexpr size_t kMostWordCharacters = 100;

class CorpusWords {
 public:
  CorpusWords(tokenize::Normalizer normalizer, tokenize::PreTokenizer pre_tokenizer)
      : normalizer_(std::move(normalizer)), pre_tokenizer_(std::move(pre_tokenizer)) {}

  /// Counts the words of one document. UserError if it is not UTF-8.
  void add(std::string_view document);
  const WordCounts& counts() const { return counts_; }
  /// How often each character occurs, by code point ascending.
  std::vector<std::pair<uint32_t, int64_t>> characters() const;

 private:
  tokenize::Normalizer normalizer_;
  tokenize::PreTokenizer pre_tokenizer_;
  tokenize::Normalizer::Scratch scratch_;
  tokenize::Words words_;
  WordCounts counts_;
};

}  // namespace megalith::text
