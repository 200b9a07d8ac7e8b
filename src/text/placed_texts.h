// SPDX-License-Identifier: Apache-2.0
// What the post-processor puts around ids of texts that are there: for those who make the ids
// themselves, word by word, or take a part of a text's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "text/tokenizer.h"

namespace megalith::text {

struct PlacedTexts {
  Encoding encoding;         // with special tokens
  int64_t first_begin = 0;   // which of its ids is the first of the text
  int64_t second_begin = 0;  // and of the second text; of one text 0
};

/// One text, or a pair as the post-processor joins them.
PlacedTexts place_texts(const Tokenizer& tokenizer, std::span<const int32_t> first,
                        std::optional<std::span<const int32_t>> second = std::nullopt);

}  // namespace megalith::text
