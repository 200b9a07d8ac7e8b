// SPDX-License-Identifier: Apache-2.0
// WordPiece (Wu et al. 2016, as BERT uses it): a word is cut from the left into the longest pieces
// that the vocabulary has; those that do not begin the word are spelled with a prefix ("##"). A
// word that cannot be cut so, or that is too long, is one unknown token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/piece_trie.h"

namespace megalith::tokenize {

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  uint64_t most_characters = 100;  // of a word
};

class WordPieceModel {
 public:
  WordPieceModel() = default;
  WordPieceModel(WordPieceOptions options, const std::vector<PieceTrie::Piece>& vocabulary);

  /// Appends the ids of one word, which is not empty. UserError if it needs the unknown token and
  /// the vocabulary has none. Time: the word's length times the longest token's.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  const WordPieceOptions& options() const { return options_; }

 private:
  bool cut(std::string_view word, std::vector<int32_t>& ids) const;

  WordPieceOptions options_;
  PieceTrie first_;
  PieceTrie further_;  // without the prefix
  int32_t unknown_id_ = -1;
};

}  // namespace megalith::tokenize
