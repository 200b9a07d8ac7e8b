// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and SIGHUP (a closed terminal) as a wish: finish the step, save, leave with 128 +
// signal. A second one ends the process at once, which harms nothing (checkpoints are complete or
// absent).
#pragma once

#include <array>
#include <csignal>

namespace megalith::train {

/// Catches the signals while it lives (SIGHUP not where it is ignored: nohup). One may live inside
/// another and sees the same signal; a process has one handler.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  /// The signal that came, or 0.
  int signal() const;

 private:
  static constexpr std::array<int, 3> kSignals{SIGTERM, SIGINT, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace megalith::train
