// SPDX-License-Identifier: Apache-2.0
// How long a rank waits for another before it ends the run: what the recipe says, or what fits the
// steps. A wait within a step is shorter than the step, a rank that is at work outside of steps
// gives signs of life; so many times the slowest step is a rank that will not come.
#pragma once

#include <algorithm>

namespace megalith::train {

class Deadline {
 public:
  static constexpr double kLeastSeconds = 600;  // the first steps are not known; disks have moods
  static constexpr double kSteps = 10;

  /// `asked`: parallel.deadline_seconds of the recipe; 0: fitted to the steps.
  explicit Deadline(double asked) : asked_(asked) {}

  void step_took(double seconds) { slowest_ = std::max(slowest_, seconds); }
  double seconds() const {
    return asked_ > 0 ? asked_ : std::max(kLeastSeconds, kSteps * slowest_);
  }

 private:
  double asked_;
  double slowest_ = 0;
};

}  // namespace megalith::train
