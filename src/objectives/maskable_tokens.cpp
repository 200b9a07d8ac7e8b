// SPDX-License-Identifier: Apache-2.0
#include "objectives/maskable_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer_data.h"

namespace megalith::objectives {
namespace {

constexpr std::array<std::string_view, 2> kMaskTokens = {"[MASK]", "<mask>"};

int32_t mask_of(const text::Tokenizer& tokenizer) {
  for (const std::string_view token : kMaskTokens) {
    if (const auto id = tokenizer.id_of(token)) return *id;
  }
  throw UserError(
      "train.objective masked needs a data.tokenizer with a token to hide others behind, {} or {}; "
      "this one has neither",
      kMaskTokens[0], kMaskTokens[1]);
}

/// White space in front of a word is part of its first token, in the byte alphabet and where spaces
/// are marked.
bool begins_with_space(const text::Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  return !bytes.empty() && (bytes[0] == ' ' || (bytes[0] >= '\t' && bytes[0] <= '\r'));
}

}  // namespace

MaskableTokens::MaskableTokens(const text::Tokenizer& tokenizer, Unit unit)
    : mask_(mask_of(tokenizer)), flags_(static_cast<size_t>(tokenizer.vocab_size()), 0) {
  bool any_continues = false, any_begins = false;
  for (int64_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!tokenizer.data().vocabulary.has(id) || id == mask_ || tokenizer.is_special(id)) continue;
    ordinary_.push_back(id);
    const bool begins = unit == Unit::token || begins_with_space(tokenizer, id);
    (begins ? any_begins : any_continues) = true;
    flags_[static_cast<size_t>(i)] = static_cast<uint8_t>(kOrdinary | (begins ? kBeginsWord : 0));
  }
  if (ordinary_.empty())
    throw UserError("train.objective masked: data.tokenizer has special tokens alone");
  if (unit == Unit::word && !(any_begins && any_continues)) {
    throw UserError(
        "train.masking.whole_words: the tokens of data.tokenizer do not say where words begin; set "
        "it to false");
  }
}

}  // namespace megalith::objectives
