// SPDX-License-Identifier: Apache-2.0
// A request on its way: what it asks of each pass of the model, and what it makes of the answers.
#pragma once

#include <memory>
#include <optional>

#include "generate/request.h"
#include "generate/scheduler.h"
#include "generate/told.h"
#include "inference/cached_rows.h"

namespace megalith::generate {

/// In place of a token: the text ends without one, as it may, or because nothing may come.
inline constexpr int32_t kEnd = -1, kNothing = -2;

/// What a request is written with.
struct WritingModel {
  const models::ModelSpec& spec;
  size_t drawable = 0;         // so many of its first tokens may be chosen
  int64_t virtual_tokens = 0;  // before the prompt
  int64_t tokens_in_text = 0;  // virtual ones that a prompt may have
};

class Writing {
 public:
  /// UserError about a request that makes no sense.
  Writing(Request request, const WritingModel& model);
  virtual ~Writing() = default;
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  const Request& request() const { return request_; }
  Sequence& sequence() { return sequence_; }
  /// Virtual tokens at the beginning of the sequence, which no penalty, stop text or
  /// log-probability sees; none where an encoder reads them.
  size_t before_text() const { return virtual_; }
  /// The prompt's tokens, behind them.
  size_t prompt() const { return prompt_; }
  int64_t reach() const { return reach_; }  // positions that it may come to have

  /// What a part asks of the pass; until the next call of its line.
  inference::SequenceRows rows(const Scheduler::Part& part);
  /// On the last stage, for each token of the part whose logits were asked for, in order: puts what
  /// all ranks are to know. `index`: of the token in the part.
  void see(const Scheduler::Part& part, int64_t index, std::span<const float> logits, Told& told);
  /// On all ranks, after the pass (and before the scheduler's advance()): takes what was told, and
  /// the log-probabilities of the part's targets.
  void take(const Scheduler::Part& part, Told& told, std::span<const double> logprobs);
  /// After advance(), if its parts were the last: goes on with what was chosen. Whether it has
  /// ended; then it leaves.
  virtual bool write(Scheduler& scheduler) = 0;
  /// When it has ended.
  virtual Generated result() = 0;
  /// Guesses of a draft model that it can use now; 0: none.
  virtual int64_t wants_guesses() const { return 0; }

 protected:
  /// The same of the tokens behind which something is to be chosen: `ahead` of the ids and
  /// proposals of the part's line, whose next token is the one that is chosen.
  virtual void see_last(const Scheduler::Part& part, int64_t ahead, std::span<const float> logits,
                        Told& told) = 0;
  virtual void take_last(const Scheduler::Part& part, Told& told) = 0;

  const GenerateOptions& options() const { return request_.options; }
  size_t drawable() const { return drawable_; }
  /// Tokens that it writes at most.
  int64_t most() const { return most_; }
  /// Of a line's tokens the prompt's and those that were written.
  Written written_of(std::span<const int32_t> ids) const {
    return {ids.subspan(virtual_), prompt_};
  }
  /// The prompt without virtual tokens, which an encoder reads where the model has one.
  std::span<const int32_t> prompt_text() const { return has_text_ ? text_ : request_.prompt; }
  /// The text is a continuation of these.
  std::span<const int32_t> before() const;
  /// What its constraint lets come next, and what may not come yet behind `count` tokens. `bits`
  /// keeps what the result shows. `end`: what is chosen where no token may come.
  NextToken next_token(const TokenConstraint* constraint, int64_t count,
                       std::vector<uint64_t>& bits, std::optional<Choice>& end) const;
  /// Adds what all kinds of results have.
  void complete(Generated& result);
  void has_written();

 private:
  /// Tokens of the part whose next one is the prompt's, so that its log-probability can be had;
  /// none if all of them are known.
  int64_t asked_of_prompt(const Scheduler::Part& part) const;
  bool wants_alternatives(const Scheduler::Part& part) const;
  /// Of the prompt and the text, that were read; below 0 while virtual tokens are left.
  int64_t text_past() const { return sequence_.past - static_cast<int64_t>(virtual_); }

  Request request_;
  Sequence sequence_;
  bool reads_;     // an encoder has the prompt
  bool has_text_;  // the prompt may have virtual tokens; text_ is what it has beside them
  size_t drawable_;
  size_t virtual_;
  size_t prompt_;
  int64_t most_;
  int64_t reach_ = 0;
  double begin_ = 0, first_pass_ = 0, first_token_ = 0;
  std::vector<int32_t> text_;
  std::vector<int32_t> with_proposed_;
  std::vector<double> prompt_logprobs_;
  std::vector<std::vector<Choice>> prompt_alternatives_;
};

/// As the request asks: one text, or a beam search. `tokenizer` may be null.
std::unique_ptr<Writing> begin_writing(Request request, const WritingModel& model,
                                       const text::Tokenizer* tokenizer);

}  // namespace megalith::generate
