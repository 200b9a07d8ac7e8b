// SPDX-License-Identifier: Apache-2.0
// A beam search on its way: one line of the sequence for each beam. Lines that go on from the same
// one share its blocks.
#pragma once

#include "generate/beam_search.h"
#include "generate/writing.h"

namespace megalith::generate {

class BeamWriting : public Writing {
 public:
  BeamWriting(Request request, const WritingModel& model, const text::Tokenizer* tokenizer);

  bool write(Scheduler& scheduler) override;
  /// The text of the best goes to on_token and on_text here, when it is known.
  Generated result() override;

 private:
  void see_last(const Scheduler::Part& part, int64_t ahead, std::span<const float> logits,
                Told& told) override;
  void take_last(const Scheduler::Part& part, Told& told) override;
  Generated text_of(const BeamSearch::Beam& beam, bool tells);

  const text::Tokenizer* tokenizer_;
  BeamSearch search_;
  std::vector<BeamSearch::Candidate> candidates_;  // of this pass
  std::vector<std::unique_ptr<TokenConstraint>> states_;
};

}  // namespace megalith::generate
