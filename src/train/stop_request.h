// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT as a wish: finish the step, save, leave with 128 + signal. A second one ends
// the process at once, which harms nothing (checkpoints are complete or absent).
#pragma once

namespace megalith::train {

/// Catches both signals while it lives. One at a time per process, since a process has one handler.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  /// The signal that came, or 0.
  int signal() const;
};

}  // namespace megalith::train
