// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/batch_latency_fixture.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::serving_plan {

BatchLatency batch_latency(const PassTimes& times, int64_t pipeline, const BatchLoad& load) {
  MEGA_CHECK(load.batch > 0 && load.input > 0 && load.output > 0);
  // A part may hold less than a whole request on average: 12 requests in 8 parts.
  const int64_t parts = load.in_parts ? std::min(pipeline, load.batch) : 1;
  const double requests = static_cast<double>(load.batch) / static_cast<double>(parts);
  const auto input = static_cast<double>(load.input);
  BatchLatency latency;
  const double tokens = requests * input;
  const double chunk = load.chunk > 0 ? std::min(static_cast<double>(load.chunk), tokens) : tokens;
  // Requests are read one behind the other where a pass does not hold them all.
  const double at_once = std::max(1.0, std::min(requests, chunk / input));
  const double step = std::min(chunk, input);
  for (double done = 0; done < requests - 1e-9; done += at_once) {
    const double now = std::min(at_once, requests - done);
    for (double past = 0; past < input; past += step) {
      const Rows rows{.count = std::min(step, input - past),
                      .past = past,
                      .times = now,
                      .chooses = past + step >= input};
      latency.prefill += times.pipelined({&rows, 1}, parts);
    }
  }
  for (int64_t written = 1; written < load.output; ++written) {
    const Rows rows{
        .count = 1, .past = input + static_cast<double>(written) - 1, .times = requests};
    latency.decode += times.pipelined({&rows, 1}, parts);
  }
  return latency;
}

}  // namespace megalith::serving_plan
