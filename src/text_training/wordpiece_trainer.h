// SPDX-License-Identifier: Apache-2.0
// Training of a WordPiece vocabulary with BERT's normalizer and pre-tokenizer: the special tokens,
// the characters of the corpus (the most frequent ones, at the beginning of words and within), then
// the most frequent pairs of neighbours as in BPE, which Hugging Face trains too. Of pairs that are
// equally frequent the one with the lower ids wins, so one corpus gives one vocabulary.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "text/tokenizer.h"
#include "text_training/corpus_words.h"

namespace megalith::text {

class WordPieceTrainer {
 public:
  struct Options {
    int64_t vocab_size = 0;     // exactly so many entries, special tokens and characters included
    int64_t min_frequency = 1;  // pairs that are rarer do not become tokens
    size_t most_characters = 1000;  // the rarest beyond are left out, with the words that have them
  };
  explicit WordPieceTrainer(Options options);

  /// Counts the words of one document. UserError if it is not UTF-8.
  void add(std::string_view document) { words_.add(document); }
  /// UserError if the corpus has too many characters, or too few pairs, for the size.
  Tokenizer train(ThreadPool& pool) const;

 private:
  Options options_;
  CorpusWords words_;
};

}  // namespace megalith::text
