// SPDX-License-Identifier: Apache-2.0
#include "tokenize/wordpiece_model.h"

#include "base/error.h"
#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

std::vector<PieceTrie::Piece> continuing(const std::vector<PieceTrie::Piece>& vocabulary,
                                         std::string_view prefix) {
  std::vector<PieceTrie::Piece> pieces;
  for (const PieceTrie::Piece& piece : vocabulary)
    if (piece.text.starts_with(prefix) && piece.text.size() > prefix.size())
      pieces.push_back({piece.text.substr(prefix.size()), piece.value});
  return pieces;
}

}  // namespace

WordPieceModel::WordPieceModel(WordPieceOptions options,
                               const std::vector<PieceTrie::Piece>& vocabulary)
    : options_(std::move(options)),
      first_(vocabulary),
      further_(continuing(vocabulary, options_.continuing_prefix)),
      unknown_id_(first_.find(options_.unknown)) {}

bool WordPieceModel::cut(std::string_view word, std::vector<int32_t>& ids) const {
  const PieceTrie* trie = &first_;
  for (size_t at = 0; at < word.size();) {
    const PieceTrie::Found found = trie->longest_prefix(word.substr(at));
    if (found.value < 0) return false;
    ids.push_back(found.value);
    at += found.length;
    trie = &further_;
  }
  return true;
}

void WordPieceModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const bool short_enough =
      word.size() <= options_.most_characters ||
      static_cast<uint64_t>(characters::count_characters(word)) <= options_.most_characters;
  if (short_enough && cut(word, ids)) return;
  ids.resize(before);
  if (unknown_id_ < 0)
    throw UserError(
        "the word \"{}\" has no tokens, and the vocabulary lacks the unknown token "
        "\"{}\"",
        word.substr(0, 80), options_.unknown);
  ids.push_back(unknown_id_);
}

}  // namespace megalith::tokenize
