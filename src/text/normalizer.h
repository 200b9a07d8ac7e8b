// SPDX-License-Identifier: Apache-2.0
// What a file's normalizer does to each part of a text between added tokens. The order of its steps
// in the file does not matter: the mark does not compose with its neighbours and is not a space.
#pragma once

#include <string>
#include <string_view>

namespace megalith::text {

/// U+2581, which stands for a space in SentencePiece's vocabularies.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct Normalizer {
  bool nfc = false;           // Unicode normalisation form C
  bool prepend_mark = false;  // a mark before text that is not empty
  bool mark_spaces = false;   // each space becomes a mark

  bool changes_nothing() const { return !nfc && !prepend_mark && !mark_spaces; }
  /// `text` must be UTF-8.
  std::string apply(std::string_view text) const;
};

/// The token with each mark turned into a space.
std::string unmark_spaces(std::string_view token);

}  // namespace megalith::text
