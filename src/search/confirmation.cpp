// SPDX-License-Identifier: Apache-2.0
#include "search/confirmation.h"

#include <algorithm>
#include <cmath>

#include "costs/pattern_search.h"

namespace megalith::search {

clusters::Cluster refitted(clusters::Cluster cluster, const Refit& refit) {
  clusters::DeviceSection& device = cluster.device;
  const double slower = refit.compute;
  for (clusters::ProductRate& rate : device.products) {
    if (rate.share) *rate.share /= slower;
  }
  for (clusters::KernelRate& rate : device.kernels) {
    rate.call_seconds *= slower;
    rate.flops /= slower;
    rate.bandwidth /= slower;
  }
  device.attention.forward /= slower;
  device.attention.backward /= slower;
  device.bandwidth_share /= slower;
  device.launch_seconds *= slower;
  for (clusters::Link& link : cluster.links) {
    link.share /= refit.wire;
    link.latency_seconds *= refit.wire;
  }
  return cluster;
}

Refit refit_to(std::span<const Trial> trials, const engine::Settings& base,
               const clusters::Cluster& cluster) {
  struct Measured {
    double computing, moving, seconds;
  };
  std::vector<Measured> measured;
  for (const Trial& trial : trials) {
    if (!trial.seconds) continue;
    const engine::Settings s = settings_at(base, trial.point);
    const costs::Breakdown parts = costs::StepTimes(s, cluster).simulated(s).parts;
    // Waiting for other stages is waiting for what they compute.
    const double moving = parts.wire + parts.gradients;
    measured.push_back({parts.total() - moving, moving, *trial.seconds});
  }
  if (measured.empty()) return {};
  const auto error = [&](const std::vector<double>& x) {
    double sum = 0;
    for (const Measured& m : measured) {
      const double off = std::log((x[0] * m.computing + x[1] * m.moving) / m.seconds);
      sum += off * off;
    }
    for (const double factor : x) sum += kPull * std::log(factor) * std::log(factor);
    return sum;
  };
  const std::vector<double> x = costs::least_by_pattern({1, 1}, error, 1e-3);
  return {x[0], x[1]};
}

const Trial* trial_of(std::span<const Trial> trials, const LayoutPoint& point) {
  const auto found =
      std::ranges::find_if(trials, [&](const Trial& trial) { return trial.point == point; });
  return found == trials.end() ? nullptr : &*found;
}

void rank_by_trials(std::vector<Candidate>& best, std::span<const Trial> trials) {
  std::erase_if(best, [&](Candidate& candidate) {
    const Trial* const trial = trial_of(trials, candidate.point);
    if (trial != nullptr) candidate.measured = trial->seconds;
    return trial != nullptr && !trial->failure.empty();
  });
  std::ranges::stable_sort(best, {}, &Candidate::expected_seconds);
}

}  // namespace megalith::search
