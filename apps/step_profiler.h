// SPDX-License-Identifier: Apache-2.0
// Records a few steps of a run after the first, which also warms up, and says where their time
// went.
#pragma once

#include <filesystem>

#include "account/profile.h"
#include "train/loop.h"

namespace megalith::apps {

class StepProfiler {
 public:
  /// Of `steps` steps; `trace` gets the timeline.
  StepProfiler(int64_t steps, std::filesystem::path trace, const account::Roofline& roofline)
      : steps_(steps), trace_(std::move(trace)), roofline_(roofline) {
    recorder_.keep_events();
  }
  /// Hangs itself around the steps. Must outlive the run.
  void attach(train::Hooks& hooks);
  /// Prints the tables and writes the timeline, unless that was done when the last of the steps
  /// ended. For runs that ended before.
  void finish();

 private:
  void before(engine::Engine& engine);
  void after(engine::Engine& engine, double seconds);
  int64_t steps_;
  std::filesystem::path trace_;
  account::Roofline roofline_;
  device::Recorder recorder_;
  int64_t seen_ = 0;
  int64_t recorded_ = 0;
  double seconds_ = 0;
  bool finished_ = false;
};

}  // namespace megalith::apps
