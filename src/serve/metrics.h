// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text format 0.0.4, under vLLM's names where it has
// one, so that its dashboards work. One thread's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "serve/engine_loop.h"

namespace megalith::serve {

class Histogram {
 public:
  /// `bounds` ascend, and must outlive it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}
  void add(double value);
  std::string text(const std::string& name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;  // of values up to each bound, and above the one before
  int64_t count_ = 0;
  double sum_ = 0;
};

struct Metrics {
  Metrics();
  // Every request that was understood is started, and then one of the other four.
  int64_t started = 0, finished = 0, cancelled = 0, failed = 0, rejected = 0;
  int64_t bad_requests = 0;  // not understood
  int64_t prompt_tokens = 0, generated_tokens = 0;
  std::map<std::string, int64_t> finish_reasons;  // of texts
  int64_t connections = 0;                        // open now, of HTTP
  int64_t calls = 0;                              // open now, over gRPC
  Histogram first_token, between_tokens, per_token, whole, prompt_lengths, text_lengths, n,
      most_tokens;

  std::string text(const std::string& model, const EngineState& engine) const;
};

}  // namespace megalith::serve
