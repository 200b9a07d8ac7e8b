// SPDX-License-Identifier: Apache-2.0
// How long a rank has waited for others. Counted in slices, each of at most a second, so that a
// process that was stopped and continued (Ctrl-Z, a suspended job) has not waited in between.
#pragma once

#include <algorithm>

namespace megalith::comm {

class Timeout {
 public:
  /// Waits at most `seconds` from `now` on; times are of the monotonic clock.
  Timeout(double seconds, double now) : seconds_(seconds), left_(seconds), last_(now) {}

  /// Counts what has passed; true when nothing is left. To be asked at least once a second.
  bool expired(double now) {
    left_ -= std::min(now - last_, kSlice);
    last_ = now;
    return left_ <= 0;
  }

  /// Who is waited for is at work: all its seconds again, from `now` on.
  void restart(double now) {
    left_ = seconds_;
    last_ = now;
  }

  /// When to ask next at the latest.
  double next_check() const { return last_ + std::min(left_, kSlice); }

 private:
  static constexpr double kSlice = 1;
  double seconds_;
  double left_;
  double last_;
};

}  // namespace megalith::comm
