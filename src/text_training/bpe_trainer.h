// SPDX-License-Identifier: Apache-2.0
// Training of a byte-level BPE vocabulary (Sennrich et al. 2016; byte alphabet of Radford et al.
// 2019). Documents stream in, and only their distinct words are kept. Then the most frequent pair
// of neighbours becomes a token, again and again, until the vocabulary is full.
//
// The result is a function of the words and their counts alone, not of threads or document order.
// Of equally frequent pairs the one with the lower left id wins, then the lower right id, as in
// Hugging Face's BpeTrainer. Ids: special tokens in the given order, then the 256 bytes in the
// order of their characters (byte_level.h), then the merges in the order they were found.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "text/tokenizer.h"
#include "text_training/word_counts.h"
#include "tokenize/split.h"

namespace megalith::text {

class BpeTrainer {
 public:
  struct Progress {
    int64_t entries;     // of the vocabulary, so far
    int64_t vocab_size;  // aim
  };
  struct Options {
    int64_t vocab_size = 0;  // exactly so many entries, special tokens and bytes included
    tokenize::SplitPattern pattern = tokenize::SplitPattern::gpt2;
    int64_t min_frequency = 1;  // pairs that are rarer do not become tokens
    std::vector<std::string> special_tokens = {std::string(kEndOfText)};
    std::function<void(const Progress&)> progress = nullptr;  // called now and then by train()
  };

  /// UserError if the options cannot be met by any corpus.
  explicit BpeTrainer(Options options);

  /// Counts the words of one document. UserError if it is not UTF-8.
  void add(std::string_view document);
  /// The same for several, on all threads of the pool. Long documents are divided among threads.
  void add(std::span<const std::string_view> documents, ThreadPool& pool);

  /// An upper bound while threads hold words of their own: shared ones count more than once.
  size_t num_words() const;

  /// Finds the merges, which consumes the words: a trainer trains once. UserError if the corpus has
  /// too few pairs; it says how many entries there would be.
  Tokenizer train(ThreadPool& pool);

 private:
  void count_words(std::string_view text, WordCounts& counts) const;
  void gather(ThreadPool& pool);
  void find_merges(TokenizerData& data, ThreadPool& pool);

  Options options_;
  std::vector<WordCounts> local_;  // one per thread
  std::vector<WordCounts> total_;  // by hash
};

}  // namespace megalith::text
