// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text format 0.0.4, under vLLM's names where it has
// one, so that its dashboards work. One thread's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "serve/engine_loop.h"
#include "serve/histogram.h"

namespace megalith::serve {

struct Metrics {
  Metrics();
  // Every request that was understood is started, and then one of the other four.
  int64_t started = 0, finished = 0, cancelled = 0, failed = 0, rejected = 0;
  int64_t bad_requests = 0;  // not understood
  int64_t prompt_tokens = 0, generated_tokens = 0;
  std::map<std::string, int64_t> finish_reasons;  // of texts
  int64_t connections = 0;                        // open now, of HTTP
  int64_t calls = 0;                              // open now, over gRPC
  int64_t guesses = 0, right_guesses = 0;         // of texts that have ended
  Histogram first_token, between_tokens, per_token, whole, prompt_lengths, text_lengths, n,
      most_tokens;
  Histogram queued, prefill, decode, inference;  // seconds of texts that have ended

  std::string text(const std::string& model, const EngineState& engine) const;

 private:
  std::string histograms(const std::string& labels, const EngineState& engine) const;
};

}  // namespace megalith::serve
