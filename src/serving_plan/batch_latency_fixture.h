// SPDX-License-Identifier: Apache-2.0
// For tests: latency of a batch that is read as a whole and then written, as FasterTransformer's
// published tables have it: all prompts are as long, all begin at once, all write as many tokens.
#pragma once

#include "serving_plan/pass_time.h"

namespace megalith::serving_plan {

struct BatchLoad {
  int64_t batch = 1;
  int64_t input = 0, output = 0;  // tokens of a request
  int64_t chunk = 0;              // tokens of a pass that reads; 0: all at once
  /// The batch is cut into as many parts as there are stages, which follow one another through the
  /// pipeline (FasterTransformer); else a pass has all of it.
  bool in_parts = false;
};

/// Seconds.
struct BatchLatency {
  double prefill = 0;  // to the first token
  double decode = 0;   // from there to the last
  double total() const { return prefill + decode; }
  /// Between two tokens, on average.
  double per_token(int64_t output) const {
    return output > 1 ? decode / static_cast<double>(output - 1) : 0;
  }
};
BatchLatency batch_latency(const PassTimes& times, int64_t pipeline, const BatchLoad& load);

}  // namespace megalith::serving_plan
