// SPDX-License-Identifier: Apache-2.0
#include "goodput/simulated_run.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "math/elementary_double.h"
#include "math/random.h"

namespace megalith::goodput {
namespace {

/// The moments of a run's failures, one after another.
class Failures {
 public:
  Failures(double mean, uint64_t seed, uint64_t run)
      : mean_(mean), key_(random_key(random_key(seed, "goodput.failures"), run)) {
    advance();
  }
  double next() const { return next_; }
  void advance() {
    const PhiloxBlock block = philox(key_, count_++, 0);
    // 53 bits, never 0.
    const double u =
        (static_cast<double>((uint64_t{block[0]} << 21) ^ (block[1] >> 11)) + 0.5) * 0x1p-53;
    next_ -= mean_ * elementary::log(u);
  }

 private:
  double mean_;
  uint64_t key_;
  uint64_t count_ = 0;
  double next_ = 0;
};

/// A run on its clock.
class Walk {
 public:
  Walk(const InterruptedRun& run, Failures failures)
      : run_(run), saves_(run.saves()), stretch_(run.stretch()), failures_(failures) {}

  SimulatedRun all() {
    while (durable_ < saves_) {
      if (!stretch()) fail();
    }
    result_.total = now_;
    result_.saves = static_cast<double>(saves_) * run_.save + run_.write;
    return result_;
  }

 private:
  /// Work and a save behind what has been saved; behind the last, the wait until it is durable.
  /// False when something failed.
  bool stretch() {
    if (saved_ == saves_) return wait_until(durable_at_);
    const double begin = now_;
    if (!wait_until(now_ + stretch_ + run_.save)) return false;
    ++saved_;
    spent_.push_back(now_ - begin);
    durable_at_ = now_ + run_.write;
    return true;
  }

  /// Goes on to a moment; false when a failure comes first. What is durable by then is noted.
  bool wait_until(double moment) {
    const bool reached = moment <= failures_.next();
    const double before = now_;
    now_ = reached ? moment : failures_.next();
    if (durable_ < saved_ && durable_at_ <= now_) {
      durable_ = saved_;
      spent_.clear();
    }
    if (!reached) under_way_ = now_ - before;
    return reached;
  }

  /// What was not durable is lost; restarts until one is through.
  void fail() {
    result_.lost += under_way_;
    for (const double seconds : spent_) result_.lost += seconds;
    spent_.clear();
    saved_ = durable_;
    while (true) {
      ++result_.failures;
      failures_.advance();
      const double through = now_ + run_.restart;
      const bool failed = failures_.next() < through;
      result_.restarts += (failed ? failures_.next() : through) - now_;
      now_ = failed ? failures_.next() : through;
      if (!failed) return;
    }
  }

  const InterruptedRun& run_;
  int64_t saves_;
  double stretch_;
  Failures failures_;
  SimulatedRun result_;
  double now_ = 0;
  int64_t saved_ = 0, durable_ = 0;  // stretches
  double durable_at_ = 0;            // of the newest that was saved
  double under_way_ = 0;             // of what failed
  std::vector<double> spent_;        // on what is saved and not durable
};

Mean mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

}  // namespace

SimulatedRun simulate(const InterruptedRun& run, uint64_t seed, uint64_t number) {
  return Walk(run, Failures(run.mean_to_stop, seed, number)).all();
}

double Simulation::quantile(double part) const {
  const auto last = static_cast<double>(totals.size() - 1);
  return totals[static_cast<size_t>(std::llround(part * last))];
}

Simulation simulate_runs(const InterruptedRun& run, uint64_t seed, int64_t runs) {
  MEGA_CHECK_GT(runs, 0);
  std::vector<double> totals, saves, restarts, lost, failures;
  for (int64_t i = 0; i < runs; ++i) {
    const SimulatedRun one = simulate(run, seed, static_cast<uint64_t>(i));
    totals.push_back(one.total);
    saves.push_back(one.saves);
    restarts.push_back(one.restarts);
    lost.push_back(one.lost);
    failures.push_back(static_cast<double>(one.failures));
  }
  Simulation all{
      {}, mean_of(totals), mean_of(saves), mean_of(restarts), mean_of(lost), mean_of(failures)};
  std::ranges::sort(totals);
  all.totals = std::move(totals);
  return all;
}

}  // namespace megalith::goodput
