// SPDX-License-Identifier: Apache-2.0
// A unigram language model (Kudo 2018): of all ways to cut a word into pieces the one whose scores
// (log probabilities) sum highest, found by dynamic programming over the ends of pieces. What no
// piece covers is an unknown character, scored far below every piece; neighbouring ones are one
// token, or the tokens of their bytes where the vocabulary has those.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenize/piece_trie.h"

namespace megalith::tokenize {

class UnigramModel {
 public:
  struct Options {
    int32_t unknown_id = -1;  // -1: a word that needs it is an error
    bool byte_fallback = false;
  };
  /// Working memory of one thread, reused from word to word.
  struct Node {
    double score = 0;  // of the best way here
    uint32_t begin = 0;
    int32_t id = -1;  // of the last piece; -1: no way leads here
  };
  using Scratch = std::vector<Node>;

  UnigramModel() = default;
  /// `scores` has one entry for each id.
  UnigramModel(Options options, const std::vector<PieceTrie::Piece>& vocabulary,
               std::vector<double> scores);

  /// Appends the ids of one word. UserError if it needs the unknown token and there is none, or is
  /// longer than 2^32 - 2 bytes. Time: the word's length times the longest piece's.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  const Options& options() const { return options_; }
  double score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

 private:
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  Options options_;
  PieceTrie pieces_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace megalith::tokenize
