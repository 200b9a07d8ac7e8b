// SPDX-License-Identifier: Apache-2.0
// One text that is being written: from chosen tokens to text that is certain, until it ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/sampling.h"
#include "text/tokenizer.h"

namespace megalith::generate {

/// When a beam search with as many ended texts as beams goes on: never; while a text that could
/// still end as well as the worst of these ended now would be better; or while one of any length
/// that is allowed could.
enum class EarlyStopping : uint8_t { at_once, likely, never };

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // the text ends before the first of these
  std::vector<int32_t> end_ids = {};   // tokens that end it
  bool ignore_eos = false;             // these are tokens like others
  /// No end token is chosen before there are so many, and no stop text is found among them.
  int64_t min_tokens = 0;

  int64_t top_logprobs = 0;      // so many alternatives of each token: 0 to kMostLogprobs
  bool prompt_logprobs = false;  // of the prompt's tokens too

  /// Speculation changes no result: tokens that are guessed at a time from what follows the same
  /// tokens earlier in prompt and text (prompt lookup), or by the generator's draft model.
  int64_t lookup = 0;
  int64_t draft = 0;

  /// More than 1: a beam search, as transformers has it. Nothing is drawn, no stop text ends it.
  int64_t beams = 1;
  double length_penalty = 1;  // score: the sum of logprobs / (tokens ^ this)
  EarlyStopping early_stopping = EarlyStopping::likely;
  int64_t best = 1;  // texts that are wanted of it
};
inline constexpr int64_t kMostBeams = 64, kMostGuesses = 64;
inline constexpr int64_t kMostLogprobs = 20;

struct Speculated {
  int64_t guesses = 0;  // that were read
  int64_t right = 0;
};

struct Generated {
  std::string text;              // of the new tokens, without end token or stop text
  std::vector<int32_t> ids;      // new tokens, without the end token
  std::vector<double> logprobs;  // of ids
  /// "stop" or "length"; "error" where a constraint let nothing come and did not let it end.
  std::string finish_reason;
  /// By token of ids, where asked for: the most likely of the plain distribution, most likely first
  /// (the lowest id of equals).
  std::vector<std::vector<Choice>> top_logprobs;
  /// By token of the prompt, from its second, where asked for: as InferenceEngine::score() to the
  /// bit; and alternatives, if any are asked for, among which the token has the same number.
  std::vector<double> prompt_logprobs;
  std::vector<std::vector<Choice>> prompt_top_logprobs;
  /// Of a beam search: its score, and the next best texts.
  double score = 0;
  std::vector<Generated> others;
  Speculated speculated;
  double queue_seconds = 0;   // until it came into a pass
  double prompt_seconds = 0;  // from there to the first token
  double decode_seconds = 0;  // from there to the end
};

/// UserError about options that make no sense.
void check(const GenerateOptions& options);

class Continuation {
 public:
  /// `before`: the tokens whose text it goes on from; none where an encoder has read them. At most
  /// `most` tokens. `tokenizer` may be null: then there is no text and no stop text. Both must
  /// outlive it.
  Continuation(const text::Tokenizer* tokenizer, const GenerateOptions& options,
               std::span<const int32_t> before, int64_t most);

  bool has_ended() const { return has_ended_; }
  /// Tokens so far.
  int64_t count() const { return std::ssize(result_.ids); }
  /// The next token, while it has not ended, and what else was likely.
  void push(const Choice& choice, std::vector<Choice> alternatives = {});
  /// Ends it without a token; a finish_reason.
  void stop(const char* reason) { end(reason); }
  /// Text that is certain and was not given yet: never within a character or what could become a
  /// stop text; when it has ended, the rest.
  std::string_view release();
  /// When it has ended.
  Generated take();

 private:
  void end(const char* reason);
  size_t certain_before(const std::string& stop) const;
  bool cut_at_stop(size_t added);

  const text::Tokenizer* tokenizer_;
  const GenerateOptions& options_;
  std::optional<text::StreamDecoder> decoder_;
  int64_t most_;
  Generated result_;
  size_t given_ = 0;
  size_t free_ = 0;  // of the text: here is no stop text looked for
  bool has_ended_ = false;
};

}  // namespace megalith::generate
