// SPDX-License-Identifier: Apache-2.0
// A request on its way: what it asks of each pass of the model, and what it makes of the answers.
#pragma once

#include "engine/cached_rows.h"
#include "generate/request.h"
#include "generate/scheduler.h"

namespace megalith::generate {

/// Numbers that the last stage tells all ranks, read in the order in which they were put.
class Told {
 public:
  explicit Told(std::vector<double> numbers) : numbers_(std::move(numbers)) {}
  static void put(const Choice& choice, std::vector<double>& numbers);
  double number() { return numbers_.at(next_++); }
  Choice choice();
  std::vector<Choice> choices(int64_t count);

 private:
  std::vector<double> numbers_;
  size_t next_ = 0;
};

class Writing {
 public:
  /// Of `spec`, whose first `drawable` tokens may be chosen. `tokenizer` may be null. UserError
  /// about a request that makes no sense.
  Writing(Request request, const models::ModelSpec& spec, const text::Tokenizer* tokenizer,
          size_t drawable);

  Request& request() { return request_; }
  Sequence& sequence() { return sequence_; }

  /// What a part asks of the pass.
  engine::SequenceRows rows(const Scheduler::Part& part) const;
  /// On the last stage, for each token of the part whose logits were asked for, in order: puts what
  /// all ranks are to know. `index`: of the token in the part.
  void see(const Scheduler::Part& part, int64_t index, std::span<const float> logits,
           std::vector<double>& told) const;
  /// On all ranks, after the pass (and before the scheduler's advance()): takes what was told, and
  /// the log-probabilities of the part's targets.
  void take(const Scheduler::Part& part, Told& told, std::span<const double> logprobs);
  /// After advance(), if the part was the last: writes the chosen token. Whether it has ended.
  bool write();
  /// When it has ended.
  Generated result();

 private:
  /// Tokens of the part whose next one is the prompt's, so that its log-probability can be had;
  /// none if all of them are known.
  int64_t asked_of_prompt(const Scheduler::Part& part) const;
  bool wants_alternatives(const Scheduler::Part& part) const;
  bool is_new(const Scheduler::Part& part, int64_t index) const;
  Choice choose(std::span<const float> logits) const;

  Request request_;
  Sequence sequence_;
  std::optional<Continuation> text_;
  size_t drawable_;
  size_t prompt_ = 0;  // of the sequence's tokens
  int64_t reach_ = 0;  // positions that it may come to have
  double begin_ = 0, first_token_ = 0;
  Choice chosen_;
  std::vector<Choice> alternatives_;
  std::vector<double> prompt_logprobs_;
  std::vector<std::vector<Choice>> prompt_alternatives_;
};

}  // namespace megalith::generate
