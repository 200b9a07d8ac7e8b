// SPDX-License-Identifier: Apache-2.0
#include "goodput/expected_run.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace megalith::goodput {

int64_t InterruptedRun::saves() const {
  return std::max<int64_t>(1, std::llround(work / interval));
}

void check(const InterruptedRun& run) {
  const auto require = [](double value, bool may_be_0, const char* name) {
    if (!(std::isfinite(value) && value <= 1e12 && (value > 0 || (may_be_0 && value == 0))))
      throw UserError("{} is {} seconds; give a number {}0, at most 1e12", name, value,
                      may_be_0 ? "from " : "above ");
  };
  require(run.work, false, "the work");
  require(run.mean_to_stop, false, "the mean time between failures");
  require(run.save, true, "a save");
  require(run.write, true, "the writing of a save");
  require(run.restart, true, "a restart");
  require(run.interval, false, "the interval between saves");
  if (run.saves() > 1 && run.stretch() + run.save < run.write)
    throw UserError(
        "a save becomes durable {} seconds later, when the next one is under way ({} seconds of "
        "work between saves); set the interval to {} seconds at least",
        run.write, run.stretch(), run.write);
  const double longest = run.restart + run.write + run.save + run.stretch();
  if (longest > 30 * run.mean_to_stop)
    throw UserError(
        "the machine fails every {:.4g} seconds on average and needs {:.4g} without a failure to "
        "get on: such a run does not end; give a shorter interval, faster saves or restarts, or "
        "fewer devices",
        run.mean_to_stop, longest);
}

double expected_seconds(const InterruptedRun& run) { return expected_shares(run).total; }

ExpectedShares expected_shares(const InterruptedRun& run) {
  const double rate = 1 / run.mean_to_stop, behind = std::exp(rate * run.restart);
  const double later = behind * std::exp(rate * run.write);
  const auto saves = static_cast<double>(run.saves());
  const double stretch = run.stretch() + run.save;
  ExpectedShares shares;
  shares.total = behind * std::expm1(rate * (stretch + run.write)) / rate +
                 (saves - 1) * later * std::expm1(rate * stretch) / rate;
  shares.work = run.work;
  shares.saves = saves * run.save + run.write;
  shares.failures = shares.total * rate;
  // A failure ends a stretch, not a restart, with probability e^(-r restart) of all that happen:
  // of each chain of restarts after one, the seconds are (e^(r restart) - 1) / r.
  const double chains = shares.failures / behind;
  shares.restarts = chains * std::expm1(rate * run.restart) / rate;
  shares.lost = shares.total - shares.work - shares.saves - shares.restarts;
  return shares;
}

double best_interval(const InterruptedRun& run) {
  const double r = 1 / run.mean_to_stop;
  // d/dw of (e^(r (w + s)) - 1) / w is 0 where 1 - r w = e^(-r (w + s)); left is above right at 0
  // (unless s is 0) and below where r w = 1.
  double low = 0, high = run.mean_to_stop;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (1 - r * middle > std::exp(-r * (middle + run.save)) ? low : high) = middle;
  }
  return std::min(run.work, std::max({low, run.write, 1e-6 * run.mean_to_stop}));
}

double young_interval(const InterruptedRun& run) {
  return std::sqrt(2 * run.save * run.mean_to_stop);
}

double daly_interval(const InterruptedRun& run) {
  if (run.save >= 2 * run.mean_to_stop) return run.mean_to_stop;
  const double part = run.save / (2 * run.mean_to_stop);
  return young_interval(run) * (1 + std::sqrt(part) / 3 + part / 9) - run.save;
}

}  // namespace megalith::goodput
