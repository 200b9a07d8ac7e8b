// SPDX-License-Identifier: Apache-2.0
// The masked language model's corruption of one sample (Devlin et al. 2019, section 3.1): of its n
// ordinary tokens k = max(1, round(rate n)) are to be predicted. Of these some are hidden behind
// the mask token, some replaced by a token drawn at random, the others left. All of it is a
// function of the sample's tokens and one key: position t draws one Philox block, whose words say
// where t stands in the order of choosing (words 0 and 1), what becomes of it (2) and which token
// is drawn (3).
//
// Words are chosen in the order of their first tokens' draws as long as they fit into what is left
// of k; one of more than k tokens counts as several, so that k > 0 always predicts something.
#pragma once

#include <cstdint>
#include <span>

#include "objectives/maskable_tokens.h"

namespace megalith::objectives {

struct MaskingOptions {
  double rate = 0.15;         // of the ordinary tokens, (0, 1]
  double mask_share = 0.8;    // of the predicted ones: hidden behind the mask token
  double random_share = 0.1;  // replaced by a random one; the shares' sum is at most 1
};

/// Most tokens that are predicted of `ordinary` ones; of single tokens exactly as many.
int64_t most_predicted(double rate, int64_t ordinary);

/// Target of a position that is not predicted.
inline constexpr int32_t kNoTarget = -1;

/// Changes `ids` in place; overwrites `targets` (kNoTarget where nothing is predicted) and
/// `weights` (0 or 1). The three are equally long.
void mask_sample(const MaskableTokens& tokens, const MaskingOptions& options, uint64_t key,
                 std::span<int32_t> ids, std::span<int32_t> targets, std::span<float> weights);

}  // namespace megalith::objectives
