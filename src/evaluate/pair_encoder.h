// SPDX-License-Identifier: Apache-2.0
// Contexts and continuations as tokens, by lm-eval's rules.
#pragma once

#include <string>
#include <vector>

#include "tasks/prompts.h"
#include "text/tokenizer.h"

namespace megalith::evaluate {

/// Tokens of which the last `scored` are asked for, and read with those before them.
struct ScoredIds {
  std::vector<int32_t> ids = {};  // at least scored + 1, at most the context + 1
  int64_t scored = 0;             // at least 1
  int64_t tokens = 0;             // of the whole continuation
};

class PairEncoder {
 public:
  /// `prefix`: the token before a text without a context. `context`: tokens that the model reads.
  PairEncoder(const text::Tokenizer& tokenizer, int32_t prefix, int64_t context);

  /// White space that ends the context goes to the continuation; the continuation's tokens are
  /// those that both together have behind as many as the context alone has. What is too long loses
  /// its beginning. UserError in words for a continuation without tokens, or longer than the
  /// model's context.
  ScoredIds pair(const tasks::Asked& asked);
  /// A whole text in windows of the model's context: every token is scored once. A window has as
  /// many tokens as fit; the last one, which scores fewer, reads more before them.
  std::vector<ScoredIds> rolling(const std::string& text);
  /// What to write on from: the last tokens that leave room for `new_tokens`.
  std::vector<int32_t> context(const std::string& text, int64_t new_tokens);

 private:
  std::vector<int32_t> encode(std::string_view text);
  ScoredIds cut(std::vector<int32_t> before, std::span<const int32_t> continuation) const;

  text::Encoder encoder_;
  int32_t prefix_;
  int64_t context_;
  std::string prefix_text_;
  std::string last_context_;  // and its tokens: choices share it
  std::vector<int32_t> last_ids_;
};

}  // namespace megalith::evaluate
