// SPDX-License-Identifier: Apache-2.0
// Floating-point operations of a model's matrix products, from its description alone, as
// throughputs of training are counted: two per multiply-add, attention over all pairs of positions,
// causal or not, backward twice forward (Korthikanti et al. 2022, appendix A, eq. 7, for every
// family). What a kernel computes beside that is not in it.
#pragma once

#include <cstdint>

#include "config/choices.h"
#include "engine/settings.h"

namespace megalith::sizing {

/// Of the forward pass of one sample.
struct ForwardFlops {
  double layers = 0;  // products with weights
  double scores = 0;  // queries with keys, probabilities with values
  double head = 0;    // logits, of the tokens that have losses, and what stands before them
};
ForwardFlops forward_flops(const engine::Settings& settings);

/// Of one sample's training: what is computed anew in backward too.
double training_flops(const ForwardFlops& forward, layers::Recompute recompute);

}  // namespace megalith::sizing
