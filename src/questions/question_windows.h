// SPDX-License-Identifier: Apache-2.0
// A question and its context as a model reads them: as a pair, a long context cut into overlapping
// windows (the doc_stride of transformers' examples for question answering; Devlin et al. 2019).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "questions/question_file.h"
#include "text/token_places.h"
#include "text/tokenizer.h"

namespace megalith::questions {

struct WindowRule {
  int64_t most_tokens = 0;  // of a window with its question and special tokens
  int64_t stride = 128;     // tokens that neighbouring windows share
  bool has_types = true;    // the model has token types
  /// The keys or options that set them, for errors.
  std::string_view tokens_key = "train.sequence_length", stride_key = "tune.stride";
};

struct QuestionWindow {
  std::vector<int32_t> ids, types;      // types are empty where the model has none
  int64_t context_begin = 0;            // index of the context's first id
  std::vector<text::TextRange> places;  // offsets in the context of its ids
};

/// Keeps the last context's tokens. windows(): UserError, naming the file and the question, when
/// the question leaves no more room for its context than windows share.
class QuestionEncoder {
 public:
  /// UserError unless the tokenizer gives offsets (text/token_places.h), and puts a special token
  /// before the question, which is the target of windows without an answer.
  QuestionEncoder(const text::Tokenizer& tokenizer, const WindowRule& rule);
  std::vector<QuestionWindow> windows(const QuestionSet& set, const Question& question);

 private:
  const text::Tokenizer& tokenizer_;
  WindowRule rule_;
  const std::string* context_ = nullptr;
  text::PlacedTokens placed_;  // of that
};

/// The window's tokens in which the first answer begins and ends: the last one that begins no
/// later, and the first one that ends no earlier. Both 0 if the window does not hold all of it, or
/// the question has none.
std::pair<int32_t, int32_t> answer_in(const QuestionWindow& window, const Question& question);

}  // namespace megalith::questions
