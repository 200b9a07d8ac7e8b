// SPDX-License-Identifier: Apache-2.0
// What the SentencePiece library does to a text before its model sees it, in one pass: compiled
// rules, the longest first; pieces that users defined stay as they are; spaces at the ends and
// repeated ones go; what is left of them becomes marks; and a mark is added.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenize/chars_map.h"
#include "tokenize/piece_trie.h"

namespace megalith::tokenize {

/// The defaults are those of the file format.
struct SentencePieceNormalizer {
  bool add_dummy_prefix = true;  // a mark is put before the text
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;           // spaces become marks
  bool whitespace_as_suffix = false;        // the mark is put behind the text instead
  std::shared_ptr<const CharsMap> rules{};  // null: none
  std::shared_ptr<const PieceTrie> kept{};  // pieces that no rule changes; null: none
};

/// Appends the normalised text. Of a text that is empty, or all spaces to be removed, nothing.
void normalize_as_sentencepiece(const SentencePieceNormalizer& step, std::string_view text,
                                std::string& out);

}  // namespace megalith::tokenize
