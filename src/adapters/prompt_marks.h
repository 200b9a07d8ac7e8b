// SPDX-License-Identifier: Apache-2.0
// Virtual tokens that stand inside a text, where it has marks, as NeMo's templates do:
//   <|VIRTUAL_PROMPT_0|>Context: ...<|VIRTUAL_PROMPT_1|>Question: ...
// Mark m stands for splits[m] rows, in the order of the table. What is between two marks is
// tokenized by itself, and special tokens are added around the whole.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::adapters {

/// What every mark begins with; and the mark of a number, from 0.
inline constexpr std::string_view kVirtualMark = "<|VIRTUAL_PROMPT_";
std::string virtual_mark(size_t number);

/// A file beside PEFT's, whose format has no key for it: {"virtual_token_splits": [20, 10]}.
inline constexpr char kSplitsName[] = "virtual_token_splits.json";
std::string splits_json(const std::vector<int64_t>& splits);
/// Those of an adapter with so many virtual tokens. UserError, naming `where`, unless they are
/// whole numbers from 1 whose sum is `tokens`.
std::vector<int64_t> parse_splits(std::string_view json, const std::string& where, int64_t tokens);

class PromptMarks {
 public:
  /// Of a model with `vocab` tokens.
  PromptMarks(const text::Tokenizer& tokenizer, int64_t vocab, std::vector<int64_t> splits);

  /// The model's, with each mark as one special token.
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  /// How many tokens the model has: their ids are below those of the marks.
  int64_t vocab() const { return vocab_; }
  /// How many virtual tokens the marks stand for together.
  int64_t tokens() const { return std::accumulate(splits_.begin(), splits_.end(), int64_t{0}); }
  /// Puts the ids of virtual tokens, whose rows in the table are those from `first_row` on, in
  /// place of the marks' ids, and as many zeros into `flags` (one for each id), if it is given.
  /// UserError, worded as a sentence about the text, unless each mark stands in it once and in
  /// order, and all other tokens are the model's.
  void expand(std::vector<int32_t>& ids, int64_t first_row = 0,
              std::vector<uint8_t>* flags = nullptr) const;
  /// Of ids that somebody else has put together. UserError, worded as a sentence about them, unless
  /// those of all rows stand among them as expand() puts them: once and in order, those of a mark
  /// side by side.
  void check_rows(std::span<const int32_t> ids) const;

 private:
  [[noreturn]] void refuse(int32_t id) const;

  int64_t vocab_;
  std::vector<int64_t> splits_;
  std::vector<int32_t> ids_;  // of the marks; also those of their first rows, from row 0 on
  text::Tokenizer tokenizer_;
};

}  // namespace megalith::adapters
