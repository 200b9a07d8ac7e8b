// SPDX-License-Identifier: Apache-2.0
// Requests that arrive at random or all at once, through the scheduler of the server
// (generate/scheduler.h) itself, on a clock that passes move: no model, only how long a pass takes.
#pragma once

#include <vector>

#include "generate/scheduler.h"
#include "inference/kv_blocks.h"
#include "serving_plan/pass_time.h"

namespace megalith::serving_plan {

struct ServedLoad {
  double arrivals = 1;            // requests a second, a Poisson process; 0: all at once
  int64_t input = 0, output = 0;  // tokens of a request
  int64_t requests = 400;         // that are simulated
  uint64_t seed = 1;
};

/// Seconds of each request, shortest first, and what the run was.
struct ServedLatencies {
  std::vector<double> first, between, whole;  // to the first token, between tokens (mean), in all
  double seconds = 0;                         // until the last was answered
  int64_t passes = 0, preemptions = 0;
  double mean_running = 0;  // sequences of a pass
  /// Mean latency of the last quarter of the requests over that of the second quarter: above 1.5 or
  /// so the queue grows.
  double growth = 0;
};
/// The value that a part (0 to 1) of the requests do not exceed.
double quantile(const std::vector<double>& sorted, double part);

/// `blocks`: of each group. The queue has room for all.
ServedLatencies serve_load(const PassTimes& times, const std::vector<inference::KvGroup>& groups,
                           const std::vector<int64_t>& blocks, generate::Scheduler::Limits limits,
                           const ServedLoad& load);

}  // namespace megalith::serving_plan
