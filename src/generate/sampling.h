// SPDX-License-Identifier: Apache-2.0
// From logits to a token, on the host. What was written before moves logits (penalties, bans); then
// the draw is from a part of what is left: temperature, and the cuts top-k, top-p (Holtzman et al.
// 2020), min-p (Nguyen et al. 2024) and typical (Meister et al. 2022), in that order, each of what
// the one before it left. The draw at a position is a function of seed and position alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace megalith::generate {

struct SamplingOptions {
  double temperature = 1;  // 0: the most likely token (the lowest id of equals)
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;      // of the probability of the most likely one
  double typical_p = 1;  // those nearest to the distribution's entropy, of this probability
  uint64_t seed = 0;

  /// A token of the prompt or the text: a logit above 0 is divided by it, one below multiplied
  /// (Keskar et al. 2019).
  double repetition_penalty = 1;
  /// Of the text alone: taken away once, and for each time, as in OpenAI's interface.
  double presence_penalty = 0;
  double frequency_penalty = 0;
  /// No run of so many tokens comes twice, prompt included; 0: any may.
  int64_t no_repeat_ngram = 0;
  std::map<int32_t, double> logit_bias = {};         // added
  std::vector<std::vector<int32_t>> bad_words = {};  // runs that are not written

  /// Whether what was written before matters.
  bool moves_logits() const;
};

/// What was read and written so far.
struct Written {
  std::span<const int32_t> ids;  // the prompt, then the text
  size_t prompt = 0;             // of them
};

struct Choice {
  int32_t id = 0;
  double logprob = 0;  // under the plain distribution, before penalties, temperature and cuts
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// What holds for one token beside the options.
struct NextToken {
  std::span<const uint64_t> allowed = {};  // bit i % 64 of [i / 64]: token i may come; empty: all
  std::span<const int32_t> banned = {};
};

/// `logits`: of the tokens that may be chosen; the plain distribution is over these. The token gets
/// position ids.size() of its sequence. Where everything is banned, the plain logits (of what is
/// allowed) are drawn from.
/// SystemError if they are not finite.
Choice choose_token(std::span<const float> logits, const SamplingOptions& options,
                    const Written& written, const NextToken& next = {});
/// A token, and what a search makes of it: its logprob with penalties, biases and bans.
struct ScoredChoice {
  Choice choice;
  double score = 0;
};
/// The `count` of the highest scores, or all that may come, highest first (the lowest id of
/// equals). Where everything is banned, as above. SystemError as above.
std::vector<ScoredChoice> best_tokens(std::span<const float> logits, int64_t count,
                                      const SamplingOptions& options, const Written& written,
                                      const NextToken& next);
/// The `count` most likely of the first `listed` tokens, or all of these, most likely first (the
/// lowest id of equals), under the plain distribution over all of `logits`. SystemError as above.
std::vector<Choice> most_likely_tokens(std::span<const float> logits, int64_t count, size_t listed);
/// UserError, naming the option, if the options make no sense.
void check(const SamplingOptions& options);

}  // namespace megalith::generate
