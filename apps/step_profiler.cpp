// SPDX-License-Identifier: Apache-2.0
#include "apps/step_profiler.h"

#include <cstdio>

#include "base/error.h"
#include "base/log.h"

namespace megalith::apps {

void StepProfiler::attach(train::Hooks& hooks) {
  hooks.before_step = [this](engine::Engine& engine, int64_t) { before(engine); };
  hooks.after_step = [this](engine::Engine& engine, int64_t, double seconds) {
    after(engine, seconds);
  };
}

void StepProfiler::before(engine::Engine& engine) {
  if (seen_ == 1) engine.device().set_recorder(&recorder_);
}

void StepProfiler::after(engine::Engine& engine, double seconds) {
  if (seen_++ == 0 || finished_) return;
  ++recorded_;
  seconds_ += seconds;
  if (recorded_ < steps_) return;
  engine.device().set_recorder(nullptr);
  finish();
}

void StepProfiler::finish() {
  if (finished_ || recorded_ == 0) return;
  finished_ = true;
  const account::Profile profile = account::profile_of(recorder_, recorded_, seconds_, roofline_);
  std::fputs(account::to_text(profile, roofline_).c_str(), stderr);
  try {
    account::write_trace(recorder_, trace_);
    log::info("timeline: {}", trace_.string());
  } catch (const Error& error) {  // a profile must not end a run
    log::warning("no timeline: {}", error.what());
  }
}

}  // namespace megalith::apps
