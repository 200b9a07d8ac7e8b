// SPDX-License-Identifier: Apache-2.0
// Training of a unigram vocabulary (Kudo 2018): from all substrings that occur again and again, by
// expectation maximisation, each round dropping the pieces whose loss the likelihood bears best.
// Text is normalised (Nmt, NFKC) and cut at white space, with marks, as for T5. Sums are taken over
// a fixed division of the words, so one corpus gives one vocabulary on any number of threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"
#include "text/tokenizer.h"
#include "text_training/corpus_words.h"

namespace megalith::text {

class UnigramTrainer {
 public:
  struct Options {
    int64_t vocab_size = 0;         // exactly so many entries, special tokens included
    size_t most_characters = 8000;  // the rarest beyond become unknown
    size_t most_seeds = 1'000'000;  // substrings to begin from
  };
  explicit UnigramTrainer(Options options);

  /// Counts the words of one document. UserError if it is not UTF-8.
  void add(std::string_view document) { words_.add(document); }
  /// UserError if the corpus has too many characters, or too few substrings, for the size.
  Tokenizer train(ThreadPool& pool) const;

 private:
  Options options_;
  CorpusWords words_;
};

}  // namespace megalith::text
