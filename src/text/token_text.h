// SPDX-License-Identifier: Apache-2.0
// How single tokens are shown.
#pragma once

#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace megalith::text {

class TokenText {
 public:
  /// `tokenizer` must outlive it, and may be null. `as_ids`: "token_id:17" instead of text.
  explicit TokenText(const Tokenizer* tokenizer, bool as_ids = false);

  /// As it reads within a text, special tokens too; U+FFFD for a part of a character.
  std::string text(int32_t id) const;
  /// The bytes it stands for, maybe a part of a character.
  std::string bytes(int32_t id) const;

 private:
  std::string decoded(int32_t id) const;
  const Tokenizer* tokenizer_;
  bool as_ids_;
  // A decoder may drop a space where a text begins, so tokens are decoded behind another one.
  std::optional<int32_t> before_;
  std::string before_text_;
};

}  // namespace megalith::text
