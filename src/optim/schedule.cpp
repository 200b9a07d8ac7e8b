// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "math/elementary_double.h"

namespace megalith::optim {

double learning_rate(const Schedule& s, const Progress& progress) {
  const auto n = static_cast<double>(progress.step);
  const auto warmup = static_cast<double>(s.warmup_steps);
  if (progress.step <= s.warmup_steps) return s.peak * n / warmup;
  const double span = s.peak - s.floor;
  // 0 just after warm-up, 1 at the end of the decay and beyond.
  const double length = s.decay_steps > 0 ? static_cast<double>(s.decay_steps)
                                          : static_cast<double>(s.total_steps) - warmup;
  const double r = length > 0 ? std::clamp((n - warmup) / length, 0.0, 1.0) : 1.0;
  switch (s.kind) {
    case ScheduleKind::constant:
      return s.peak;
    case ScheduleKind::linear:
      return s.floor + span * (1 - r);
    case ScheduleKind::cosine:
      return s.floor + span * 0.5 * (1 + elementary::cos(std::numbers::pi * r));
    case ScheduleKind::inverse_sqrt:
      return std::max(s.floor,
                      s.peak * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
    case ScheduleKind::wsd: {
      const auto decay = static_cast<double>(s.decay_steps);
      const double begin = static_cast<double>(s.total_steps) - decay;
      if (n <= begin || decay <= 0) return s.peak;
      return s.floor + span * std::max(0.0, (static_cast<double>(s.total_steps) - n) / decay);
    }
    case ScheduleKind::hours:
      return s.floor +
             span * (1 - std::clamp(progress.elapsed_seconds / s.budget_seconds, 0.0, 1.0));
  }
  MEGA_CHECK(false, "unknown schedule");
}

int64_t batch_size(const BatchRamp& ramp, int64_t consumed_samples) {
  if (ramp.start <= 0 || ramp.start >= ramp.full || consumed_samples > ramp.samples)
    return ramp.full;
  const int64_t steps = (ramp.full - ramp.start) / ramp.increment;
  // consumed / (samples / steps), in integers: the quotient Megatron-LM rounds down.
  const auto raised =
      static_cast<int64_t>(static_cast<__int128>(consumed_samples) * steps / ramp.samples);
  return std::min(ramp.full, ramp.start + raised * ramp.increment);
}

int64_t samples_after(const BatchRamp& ramp, int64_t steps) {
  int64_t consumed = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t size = batch_size(ramp, consumed);
    if (size == ramp.full) return consumed + (steps - i) * ramp.full;
    consumed += size;
  }
  return consumed;
}

}  // namespace megalith::optim
