// SPDX-License-Identifier: Apache-2.0
// Where in a text its tokens stand: what others call offsets.
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

/// Ids, and of each the whole characters that it stands for, without the white space around them (a
/// token of white space alone stands for nothing: its begin is its end).
struct PlacedTokens {
  std::vector<int32_t> ids;
  std::vector<TextRange> places;
};

/// The ids of Tokenizer::encode without special tokens, with their places. WordPiece and byte-level
/// BPE alone: of other tokenizers, and of those whose normaliser changes a text otherwise than a
/// few characters at a time, UserError.
PlacedTokens encode_with_places(const Tokenizer& tokenizer, std::string_view text);

}  // namespace megalith::text
