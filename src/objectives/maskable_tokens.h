// SPDX-License-Identifier: Apache-2.0
// What a masked objective knows of a tokenizer: which ids may be predicted and drawn, which one
// stands for a token that is hidden, and where words begin.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::objectives {

/// Whether words are predicted whole or token by token.
enum class Unit : uint8_t { token, word };

class MaskableTokens {
 public:
  /// UserError when the tokenizer has no mask token, or tells no words apart where `unit` asks for
  /// them.
  MaskableTokens(const text::Tokenizer& tokenizer, Unit unit);

  int32_t mask() const { return mask_; }
  /// Ids with a token that is neither special nor the mask, ascending.
  const std::vector<int32_t>& ordinary() const { return ordinary_; }
  bool is_ordinary(int32_t id) const { return has(id, kOrdinary); }
  /// Whether a word ends in front of this token. Of units that are tokens: always.
  bool begins_word(int32_t id) const { return has(id, kBeginsWord); }

 private:
  enum Flag : uint8_t { kOrdinary = 1, kBeginsWord = 2 };
  bool has(int32_t id, Flag flag) const {
    const auto index = static_cast<size_t>(id);
    return id >= 0 && index < flags_.size() && (flags_[index] & flag) != 0;
  }
  int32_t mask_ = 0;
  std::vector<int32_t> ordinary_;
  std::vector<uint8_t> flags_;  // by id
};

}  // namespace megalith::objectives
