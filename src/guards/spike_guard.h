// SPDX-License-Identifier: Apache-2.0
// Sees when a loss jumps: more than `factor` deviations above the median of the losses before it.
// Median and median absolute deviation, because a few bad steps must not hide the next
// (Hampel 1974); rewinding past the bad samples is Chowdhery et al. 2022 (PaLM, section 5.1). What
// it has seen is part of the checkpoint, so that a resumed run judges as the whole one.
#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/integer.h"

namespace megalith::guards {

struct SpikeOptions {
  double factor = 8;    // deviations
  int64_t window = 64;  // losses
};

struct Spike {
  double loss = 0;
  double median = 0;     // of the losses before
  double threshold = 0;  // what it went over
};

class SpikeGuard {
 public:
  explicit SpikeGuard(const SpikeOptions& options) : options_(options) {}

  /// Judges the next finite loss by those before it, and remembers it. Nothing before half a window
  /// of losses has been seen.
  std::optional<Spike> observe(double loss);

  /// The losses remembered, as hexadecimal text.
  nlohmann::json to_json() const;
  /// IntegrityError when it is not what to_json gives.
  void restore(const nlohmann::json& json);

 private:
  SpikeOptions options_;
  std::deque<double> losses_;  // oldest first
};

}  // namespace megalith::guards
