// SPDX-License-Identifier: Apache-2.0
// The offsets of tokens in their text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::text {

/// Bytes [begin, end) of a text.
struct TextRange {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// Ids, and for each the range of whole characters that it stands for, without white space at
/// either end (of a token of white space alone the range is empty).
struct PlacedTokens {
  std::vector<int32_t> ids;
  std::vector<TextRange> places;
};

/// The ids of Tokenizer::encode without special tokens, with their offsets in bytes. UserError for
/// models other than WordPiece and byte-level BPE, and where the normaliser changes the text other
/// than character by character (with their combining marks).
PlacedTokens encode_with_places(const Tokenizer& tokenizer, std::string_view text);

}  // namespace megalith::text
