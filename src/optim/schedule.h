// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of where a run stands. Steps count from 1; the last step of
// a run is `total_steps`. Warm-up over W steps is linear, peak * n / W for n <= W. The decay of
// `linear` and `cosine` reaches the floor exactly on the last step and stays there (the formulas
// are those of Megatron-LM's parameter scheduler).
#pragma once

#include <cstdint>

#include "config/choices.h"

namespace megalith::optim {

using ScheduleKind = config::Schedule;

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double peak = 3e-4;
  double floor = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  /// `linear` and `cosine`: steps from the end of warm-up to the floor; 0: to the last step. `wsd`:
  /// length of the last phase (warm-up, stable, linear decay; Hu et al. 2024).
  int64_t decay_steps = 0;
  /// `hours`: linear decay over the time budget, whatever number of steps fits into it (as in
  /// "Cramming", Geiping & Goldstein 2022).
  double budget_seconds = 0;
};

struct Progress {
  int64_t step = 1;
  double elapsed_seconds = 0;  // of the run, before this step; read by `hours` only
};

double learning_rate(const Schedule& schedule, const Progress& progress);

/// The number of sequences in a step while the batch grows (Megatron-LM's --rampup-batch-size):
///   steps = (full - start) / increment
///   batch = start + floor(consumed / (samples / steps)) * increment,   at most full
struct BatchRamp {
  int64_t full = 1;
  int64_t start = 0;  // 0: no ramp
  int64_t increment = 0;
  int64_t samples = 0;
};
int64_t batch_size(const BatchRamp& ramp, int64_t consumed_samples);
/// Samples consumed by the first `steps` steps.
int64_t samples_after(const BatchRamp& ramp, int64_t steps);

}  // namespace megalith::optim
