// SPDX-License-Identifier: Apache-2.0
// A question and the text that it is about as a model reads them: as a pair, the text cut into
// windows where it is too long, which share some tokens (Devlin et al. 2019; as transformers'
// examples for question answering cut it).
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
  bool has_types = true;    // the model tells the two texts apart
  /// What a user sets them by, for faults.
  std::string_view tokens_key = "train.sequence_length", stride_key = "tune.stride";
};

struct QuestionWindow {
  std::vector<int32_t> ids, types;      // types are empty where the model has none
  int64_t context_begin = 0;            // which id is the first of the context's
  std::vector<text::TextRange> places;  // of those in the context
};

/// Of one tokenizer, which remembers the last context. UserError, naming the file and the
/// question, when it leaves no more room than neighbours share.
class QuestionEncoder {
 public:
  /// UserError unless a special token stands before the question, which "no answer" points to.
  QuestionEncoder(const text::Tokenizer& tokenizer, const WindowRule& rule);
  std::vector<QuestionWindow> windows(const QuestionSet& set, const Question& question);

 private:
  const text::Tokenizer& tokenizer_;
  WindowRule rule_;
  const std::string* context_ = nullptr;
  text::PlacedTokens placed_;  // of that
};

/// Which tokens of the window the first answer begins and ends in: the last that begins no later,
/// and the first that ends no earlier. Both 0 where it is not all within, or there is none.
std::pair<int32_t, int32_t> answer_in(const QuestionWindow& window, const Question& question);

}  // namespace megalith::questions
