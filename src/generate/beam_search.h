// SPDX-License-Identifier: Apache-2.0
// Beam search: the texts that go on, and those that have ended. As transformers 5 defines it (its
// `num_beams`, `length_penalty`, `early_stopping`), in double. Knows no model.
#pragma once

#include "base/function_ref.h"
#include "generate/continuation.h"

namespace megalith::generate {

class BeamSearch {
 public:
  /// A text on its way, or ended: then its last token may be an end token.
  struct Beam {
    double sum = 0;    // of the scores of its tokens: their logprobs, penalties applied
    double score = 0;  // when it has ended: sum / (tokens, an end token counted ^ length_penalty)
    std::vector<Choice> tokens;
    std::vector<std::vector<Choice>> alternatives;  // of each token, where asked for
  };
  /// A token that may go on a beam.
  struct Candidate {
    size_t beam = 0;
    Choice choice;
    double score = 0;
    std::vector<Choice> alternatives = {};
  };

  /// Of at most `most` tokens. It begins with one beam without tokens.
  BeamSearch(const GenerateOptions& options, int64_t most);

  /// Candidates that are needed of each beam: its best ones.
  int64_t candidates() const;
  /// Goes on with the best of the beams' candidates, in any order; an id below 0 is an end without
  /// a token. Returns which beam each of the new ones goes on from; none when the search has ended.
  std::vector<size_t> advance(std::vector<Candidate> candidates);
  const std::vector<Beam>& beams() const { return beams_; }
  bool has_ended() const { return has_ended_; }
  /// When it has: the best, best first, `options.best` of them or as many as there are.
  std::vector<Beam> best() const;

 private:
  bool is_end(int32_t id) const;
  double score_of(double sum, int64_t tokens) const;
  void add_ended(Beam beam, int64_t tokens);
  bool is_done(double best_sum, int64_t tokens) const;

  const GenerateOptions& options_;
  int64_t most_;
  std::vector<Beam> beams_;
  std::vector<Beam> ended_;
  bool has_ended_ = false;
};

}  // namespace megalith::generate
