// SPDX-License-Identifier: Apache-2.0
// How far one model's predictions are from another's of the same shape: what quantised weights
// cost.
#pragma once

#include <cstdint>

#include "evaluate/perplexity.h"

namespace megalith::evaluate {

struct Divergence {
  int64_t tokens = 0;        // predicted ones
  double nll = 0;            // of the first model, nats, summed
  double other_nll = 0;      // of the other
  double kl = 0;             // sum over tokens of sum_i p_i log(p_i / q_i), p of the first
  int64_t same_choices = 0;  // tokens for which both think the same one most likely
  double perplexity() const;
  double other_perplexity() const;
  double mean_kl() const;
  double same_choice_fraction() const;
};

/// Both read `ids` in the windows of perplexity(). Sums are in f64. UserError for a text of one
/// token, and unless both are models of one stack with logits and one vocabulary. Each of one rank.
Divergence divergence(inference::InferenceEngine& model, inference::InferenceEngine& other,
                      std::span<const int32_t> ids, const OnProgress& on_progress = {});

}  // namespace megalith::evaluate
