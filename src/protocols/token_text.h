// SPDX-License-Identifier: Apache-2.0
// How single tokens are shown beside their log-probabilities.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "protocols/reply.h"
#include "text/tokenizer.h"

namespace megalith::protocols {

class TokenText {
 public:
  /// `tokenizer` must outlive it, and may be null. `as_ids`: "token_id:17" instead of text.
  explicit TokenText(const text::Tokenizer* tokenizer, bool as_ids = false);

  /// As it reads within a text, special tokens too; U+FFFD for a part of a character.
  std::string text(int32_t id) const;
  /// The bytes it stands for, maybe a part of a character.
  std::string bytes(int32_t id) const;

 private:
  std::string decoded(int32_t id) const;
  const text::Tokenizer* tokenizer_;
  bool as_ids_;
  // A decoder may drop a space where a text begins, so tokens are decoded behind another one.
  std::optional<int32_t> before_;
  std::string before_text_;
};

/// The texts of a search as if each had been asked for: of the best its tokens were told; those of
/// the others, which go on from `before` too, are made here. `tokenizer` may be null. Of other
/// requests the one text.
std::vector<Written> texts_of_search(Written written, const text::Tokenizer* tokenizer,
                                     std::span<const int32_t> before);

/// Unicode characters of UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace megalith::protocols
