// SPDX-License-Identifier: Apache-2.0
// What a run does about steps that went wrong, as its recipe says: leave out a step that is not
// finite, warn of a spike or go back before it, and end (exit 93) when either happens too often.
// Counts and memory are part of the checkpoint, so that a resumed run does the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/recipe.h"
#include "guards/spike_guard.h"

namespace megalith::guards {

class RunGuard {
 public:
  /// Every rank judges, from numbers that all have, and comes to the same; one of them `speaks`.
  explicit RunGuard(const config::TrainSection& recipe, bool speaks = true)
      : recipe_(recipe), speaks_(speaks), spikes_({recipe.spike_factor, recipe.spike_window}) {}

  /// Step `step` was not finite and changed nothing; `first` names the tensor. DoNotRestartError
  /// unless the recipe skips such steps and there were fewer than its limit.
  void not_finite(int64_t step, const std::string& first);
  /// Gradients of step `step` overflowed under its loss scale: it changed nothing, and `next` is
  /// the scale of the step behind it.
  void overflowed(int64_t step, double loss_scale, double next);
  int64_t overflowed_steps() const { return overflowed_steps_; }
  /// Step `step` was applied; its loss is finite. The spike to rewind for, if any.
  /// DoNotRestartError when the recipe's rewinds are used up.
  std::optional<Spike> observe(int64_t step, double loss);
  /// After restore() of the checkpoint that the run went back to: one rewind more than the
  /// `rewinds` before it (those since the checkpoint count: a run killed among them does them
  /// again), which left out `samples` samples.
  void rewound(int64_t rewinds, int64_t samples);
  int64_t rewinds() const { return rewinds_; }

  /// Steps that changed nothing, for either cause.
  int64_t skipped_steps() const { return skipped_steps_ + overflowed_steps_; }

  nlohmann::json to_json() const;
  /// IntegrityError when it is not what to_json gives.
  void restore(const nlohmann::json& json);

 private:
  config::TrainSection recipe_;
  bool speaks_;
  SpikeGuard spikes_;
  bool in_spike_ = false;      // says a long spike once; not state
  int64_t skipped_steps_ = 0;  // that were not finite, overflows aside
  int64_t overflowed_steps_ = 0;
  int64_t rewinds_ = 0;
  int64_t skipped_samples_ = 0;
};

}  // namespace megalith::guards
