// SPDX-License-Identifier: Apache-2.0
// From logits to a token: temperature, top-k, top-p (Holtzman et al. 2020), in that order, on the
// host. The draw at a position is a function of seed and position alone.
#pragma once

#include <cstdint>
#include <span>

namespace megalith::generate {

struct SamplingOptions {
  double temperature = 1;  // 0: the most likely token (the lowest id of equals)
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

struct Choice {
  int32_t id = 0;
  double logprob = 0;  // under the plain distribution, before temperature and cuts
};

/// `logits`: of the tokens that may be chosen; the plain distribution is over these. `position`: of
/// the token to be chosen, in its sequence. UserError if the options make no sense.
Choice choose_token(std::span<const float> logits, const SamplingOptions& options,
                    int64_t position);
void check(const SamplingOptions& options);

}  // namespace megalith::generate
