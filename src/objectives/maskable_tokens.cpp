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

/// Whether a token begins a word: where pieces that go on with one are marked, all others do; else
/// the white space in front of a word is part of its first token, as it is or marked.
bool is_first_of_word(const text::Tokenizer& tokenizer, int32_t id) {
  const std::string_view said = tokenizer.token_bytes(id);
  if (tokenizer.data().kind == text::ModelKind::wordpiece)
    return !said.starts_with(tokenizer.data().wordpiece.options().continuing_prefix);
  return said.starts_with("\u2581") || said.starts_with(' ') ||
         (!said.empty() && said[0] >= '\t' && said[0] <= '\r');
}

}  // namespace

MaskableTokens::MaskableTokens(const text::Tokenizer& tokenizer, Unit unit)
    : mask_(mask_of(tokenizer)), flags_(static_cast<size_t>(tokenizer.vocab_size()), 0) {
  bool any_continues = false, any_begins = false;
  for (int64_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!tokenizer.data().vocabulary.has(id) || id == mask_ || tokenizer.is_special(id)) continue;
    ordinary_.push_back(id);
    const bool begins = unit == Unit::token || is_first_of_word(tokenizer, id);
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
