// SPDX-License-Identifier: Apache-2.0
// The post-processor on ids: special tokens around texts that a caller has encoded itself, word by
// word or in part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "text/tokenizer.h"

namespace megalith::text {

struct PlacedTexts {
  Encoding encoding;         // with special tokens
  int64_t first_begin = 0;   // index of the first text's first id
  int64_t second_begin = 0;  // and of the second text's; 0 for a single text
};

/// One text, or a pair as the post-processor joins them.
PlacedTexts place_texts(const Tokenizer& tokenizer, std::span<const int32_t> first,
                        std::optional<std::span<const int32_t>> second = std::nullopt);

}  // namespace megalith::text
