// SPDX-License-Identifier: Apache-2.0
// How what was written before moves the logits of the next token.
#pragma once

#include <limits>
#include <vector>

#include "generate/sampling.h"

namespace megalith::generate {

inline constexpr float kBanned = -std::numeric_limits<float>::infinity();

/// The logits with penalties, biases and bans (-infinity) of `options`.
std::vector<float> moved_logits(std::span<const float> logits, const SamplingOptions& options,
                                const Written& written);

}  // namespace megalith::generate
