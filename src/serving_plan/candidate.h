// SPDX-License-Identifier: Apache-2.0
// Ways to serve a model, measured or predicted, and which of them is best: of those that keep to
// the limits the one with the highest throughput for each GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace megalith::serving_plan {

/// NeMo's columns, and what it does not measure.
struct Candidate {
  /// Of one that is predicted.
  struct Details {
    std::string weights;               // format
    int64_t chunk = 0;                 // tokens of a pass
    int64_t memory = 0;                // bytes of the rank that takes most
    std::vector<int64_t> blocks = {};  // of keys and values, of each group
    double sequences = 0;              // whole requests that have room at once
    double mean_running = 0;           // with arrivals: of a pass
    int64_t preemptions = 0;
    std::vector<std::string> unmeasured = {};  // kernels (PassTimes::unmeasured)
  };
  int64_t tensor = 1, pipeline = 1, batch = 1;
  double latency_ms = 0;               // of a whole request
  std::optional<double> ttft_ms = {};  // to the first token
  std::optional<double> tpot_ms = {};  // between two tokens after that
  double throughput = 0;               // requests a second and GPU
  std::optional<Details> details = {};
  std::string failure = {};  // why there are no figures; empty: there are
  int64_t gpus() const { return tensor * pipeline; }
};

/// 0: none.
struct Limits {
  double latency_ms = 0, ttft_ms = 0, tpot_ms = 0;
  int64_t gpus = 0;  // of one copy of the model
};

/// Why a candidate is out: its failure, or the limit that it breaks, in words; empty: it is in.
/// UserError for a limit on what the candidates have no figures of.
std::string fault_of(const Candidate& candidate, const Limits& limits);

/// Throughput of `batch` requests at once that take `latency_ms`: a second and GPU.
double throughput_of(const Candidate& candidate);

struct Ranking {
  std::vector<std::string> faults;  // by candidate
  std::vector<size_t> order;        // of those that are in, the highest throughput first
  /// Of those that are in: no other has as low a latency at as high a throughput. The lowest
  /// latency first.
  std::vector<size_t> pareto;
};
/// UserError, saying what to change, when none is in. `what` names the candidates ("table.csv").
Ranking rank(std::span<const Candidate> candidates, const Limits& limits, const std::string& what);

}  // namespace megalith::serving_plan
