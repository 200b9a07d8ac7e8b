// SPDX-License-Identifier: Apache-2.0
// One text, token by token; or several tokens a pass, where guesses of what comes turn out right
// (speculative decoding: Leviathan et al. 2023). What is drawn at a position is a function of seed,
// position and logits, so a guess is right exactly where it is what would have been drawn: the text
// is the same with guesses and without.
#pragma once

#include "generate/writing.h"

namespace megalith::generate {

class TextWriting : public Writing {
 public:
  TextWriting(Request request, const WritingModel& model, const text::Tokenizer* tokenizer);

  bool write(Scheduler& scheduler) override;
  Generated result() override;
  int64_t wants_guesses() const override { return may_guess(options().draft); }

 private:
  void see_last(const Scheduler::Part& part, int64_t ahead, std::span<const float> logits,
                Told& told) override;
  void take_last(const Scheduler::Part& part, Told& told) override;
  Choice choose(std::span<const float> logits) const;
  bool push(size_t at);
  int64_t may_guess(int64_t count) const;
  void look_up();

  Continuation text_;
  /// On the last stage, what part of the guesses has been right in this pass.
  std::vector<int32_t> seen_;
  std::unique_ptr<TokenConstraint> seen_state_;
  bool was_wrong_ = false;
  /// Of this pass: one more than guesses were right.
  std::vector<Choice> chosen_;
  std::vector<std::vector<Choice>> alternatives_;
  Speculated speculated_;
};

}  // namespace megalith::generate
