// SPDX-License-Identifier: Apache-2.0
// The angles of rotary positions (Su et al. 2021) for every published way of reaching beyond the
// length a model was trained for. With dim = 2 P, e_i = 2 i / dim, L the original context and n the
// length of the sequence at hand:
//   none       inverse_i = 1 / base^e_i
//   linear     inverse_i / factor                                              (Chen et al. 2023)
//   dynamic    base' = base (factor max(n, L) / L - (factor - 1))^(dim / (dim - 2))
//   llama3     wavelengths 2 pi / inverse_i beyond L / low_frequency_factor are divided by factor,
//              those below L / high_frequency_factor stay, linear in between
//   yarn       the same between the pairs that turn beta_fast and beta_slow times in L; cosines and
//              sines times 0.1 ln(factor) + 1                                  (Peng et al. 2023)
//   longrope   inverse_i / short_factors_i up to L tokens, / long_factors_i beyond; times
//              sqrt(1 + ln(factor) / ln(L))                                    (Ding et al. 2024)
// Steps are rounded to f32 where transformers does (modeling_rope_utils.py), so that its angles are
// ours; powers and logarithms are our own, the same on every machine.
#pragma once

#include "kernels/rotary/rotary.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// Whether the angles of a sequence depend on how long it will become.
constexpr bool depends_on_length(RopeScaling scaling) {
  return scaling == RopeScaling::dynamic || scaling == RopeScaling::longrope;
}

/// `context` is the model's; `length` the number of positions that the sequence will come to have.
kernels::RotaryFrequencies rotary_frequencies(const RopeSpec& rope, int64_t context,
                                              int64_t length);

}  // namespace megalith::layers
