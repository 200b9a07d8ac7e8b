// SPDX-License-Identifier: Apache-2.0
// How long a rank waits for another before it ends the run: what the recipe says, or what fits the
// steps. Within a step a wait is shorter than the step, and a rank that works outside of steps
// sends heartbeats; a rank that is silent for several of the slowest steps will not come.
#pragma once

#include <algorithm>

namespace megalith::train {

class TimeoutPolicy {
 public:
  static constexpr double kLeastSeconds = 600;  // before the first steps; a disk may be slow
  static constexpr double kSteps = 10;

  /// `asked`: parallel.deadline_seconds of the recipe; 0: fitted to the steps.
  explicit TimeoutPolicy(double asked) : asked_(asked) {}

  void step_took(double seconds) { slowest_ = std::max(slowest_, seconds); }
  double seconds() const {
    return asked_ > 0 ? asked_ : std::max(kLeastSeconds, kSteps * slowest_);
  }

 private:
  double asked_;
  double slowest_ = 0;
};

}  // namespace megalith::train
