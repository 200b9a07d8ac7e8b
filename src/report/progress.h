// SPDX-License-Identifier: Apache-2.0
// The line that a person watches: step, loss, learning rate, gradient norm, tokens/s, share of the
// machine's matrix-product ceiling, time left. One living line on a terminal, plain lines
// elsewhere.
#pragma once

#include <string>

#include "report/metrics.h"

namespace megalith::report {

class Progress {
 public:
  struct Options {
    int64_t total_steps = 0;    // INT64_MAX: bounded by time
    double budget_seconds = 0;  // 0: bounded by steps
    int64_t log_every = 1;      // plain lines: each so many steps
  };
  explicit Progress(const Options& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `elapsed` is that of the run.
  void step(const StepMetrics& metrics, double elapsed);
  /// A line of its own that stays.
  void note(const std::string& text);

 private:
  std::string line(const StepMetrics& metrics, double elapsed) const;
  void clear();
  Options options_;
  bool terminal_;
  bool living_ = false;
  double seconds_per_step_ = 0;  // smoothed
};

/// "3:07", "1:02:03"
std::string duration_text(double seconds);

}  // namespace megalith::report
