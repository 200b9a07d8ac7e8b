// SPDX-License-Identifier: Apache-2.0
#include "guards/run_guard.h"

#include <nlohmann/json.hpp>

#include "base/json_number.h"
#include "base/log.h"

namespace megalith::guards {

/// No run gets there, and sums of such numbers do not overflow.
constexpr int64_t kMostCounted = int64_t{1} << 60;

void RunGuard::not_finite(int64_t step, const std::string& first) {
  if (recipe_.not_finite == config::NotFinite::stop) {
    throw DoNotRestartError(
        "step {} is not finite; first: {}; lower optimizer.lr, or set train.not_finite: skip to "
        "leave such steps out; the last checkpoint is kept",
        step, first);
  }
  if (skipped_steps_ >= recipe_.not_finite_limit) {
    throw DoNotRestartError(
        "step {} is not finite; first: {}; {} steps were skipped already, which is "
        "train.not_finite_limit; the last checkpoint is kept",
        step, first, skipped_steps_);
  }
  ++skipped_steps_;
  if (!speaks_) return;
  log::warning("step {} is not finite and is skipped ({} of at most {}); first: {}", step,
               skipped_steps_, recipe_.not_finite_limit, first);
}

void RunGuard::overflowed(int64_t step, double loss_scale, double next) {
  ++overflowed_steps_;
  if (!speaks_) return;
  log::info(
      "step {}: gradients overflow at a loss scale of {}; the step is skipped ({} so far), {}",
      step, loss_scale, overflowed_steps_,
      next == loss_scale ? "the scale stays" : fmt::format("the scale is now {}", next));
}

std::optional<Spike> RunGuard::observe(int64_t step, double loss) {
  if (recipe_.spike == config::Spike::ignore) return std::nullopt;
  const std::optional<Spike> spike = spikes_.observe(loss);
  const bool began = spike.has_value() && !in_spike_;
  in_spike_ = spike.has_value();
  if (!spike) return std::nullopt;
  const std::string what = fmt::format(
      "step {}: loss {:.4f} is far above the median {:.4f} of the "
      "steps before (limit {:.4f})",
      step, spike->loss, spike->median, spike->threshold);
  if (recipe_.spike == config::Spike::warn) {
    if (began && speaks_) log::warning("{}", what);
    return std::nullopt;
  }
  if (rewinds_ >= recipe_.spike_limit) {
    throw DoNotRestartError(
        "{}; the run was rewound {} times already, which is train.spike_limit; lower optimizer.lr; "
        "the last checkpoint is kept",
        what, rewinds_);
  }
  if (speaks_) log::warning("{}; going back", what);
  return spike;
}

void RunGuard::rewound(int64_t rewinds, int64_t samples) {
  rewinds_ = rewinds + 1;
  skipped_samples_ += samples;
  in_spike_ = false;
}

nlohmann::json RunGuard::to_json() const {
  return {{"skipped_steps", skipped_steps_},
          {"overflowed_steps", overflowed_steps_},
          {"rewinds", rewinds_},
          {"skipped_samples", skipped_samples_},
          {"losses", spikes_.to_json()}};
}

void RunGuard::restore(const nlohmann::json& json) {
  try {
    const char* const where = "checkpoint: its guard's state";
    skipped_steps_ = whole_number(json, "skipped_steps", where, kMostCounted);
    overflowed_steps_ = json.contains("overflowed_steps")  // not in checkpoints from before f16
                            ? whole_number(json, "overflowed_steps", where, kMostCounted)
                            : 0;
    rewinds_ = whole_number(json, "rewinds", where, kMostCounted);
    skipped_samples_ = whole_number(json, "skipped_samples", where, kMostCounted);
    spikes_.restore(json.at("losses"));
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its guard's state cannot be read: {}", error.what());
  }
}

}  // namespace megalith::guards
