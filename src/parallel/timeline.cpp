// SPDX-License-Identifier: Apache-2.0
#include "parallel/timeline.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace megalith::parallel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// When both ends of each transfer started.
class Transfers {
 public:
  explicit Transfers(const std::vector<std::vector<Action>>& schedule) {
    for (const auto& actions : schedule) {
      for (const Action& action : actions) {
        boundaries_ = std::max(boundaries_, action.boundary + 1);
        micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
      }
    }
    started_.assign(static_cast<size_t>(boundaries_) * static_cast<size_t>(micro_batches_) * 4,
                    kNever);
  }
  double& sent(bool activation, const Action& a) { return started_[index(activation, a)]; }
  double& received(bool activation, const Action& a) { return started_[index(activation, a) + 1]; }
  /// When the transfer is over; never while an end has not started.
  double over(bool activation, const Action& a) {
    return std::max(sent(activation, a), received(activation, a));
  }

 private:
  size_t index(bool activation, const Action& a) const {
    return static_cast<size_t>((a.boundary * micro_batches_ + a.micro_batch) * 4 +
                               (activation ? 0 : 2));
  }
  int boundaries_ = 0;
  int micro_batches_ = 0;
  std::vector<double> started_;
};

/// Every stage's clock and how far it has come in its list.
class Simulation {
 public:
  Simulation(const std::vector<std::vector<Action>>& schedule,
             FunctionRef<double(int stage, const Action& action)> seconds_of)
      : schedule_(schedule),
        seconds_of_(seconds_of),
        transfers_(schedule),
        clock_(schedule.size(), 0),
        next_(schedule.size(), 0) {
    timeline_.busy.assign(schedule.size(), 0);
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < schedule_.size(); ++stage) {
        while (next_[stage] < schedule_[stage].size() && act(stage)) {
          ++next_[stage];
          moved = true;
        }
      }
    }
    require_finished();
    timeline_.end = clock_.empty() ? 0 : *std::ranges::max_element(clock_);
    return std::move(timeline_);
  }

 private:
  /// False when the stage has to wait for a transfer whose other end has not started.
  bool act(size_t stage) {
    const Action& action = schedule_[stage][next_[stage]];
    const double now = clock_[stage];
    switch (action.kind) {
      case ActionKind::forward:
      case ActionKind::backward:
        compute(stage, action);
        return true;
      case ActionKind::start_send_activation:
        transfers_.sent(true, action) = now;
        return true;
      case ActionKind::start_receive_activation:
        transfers_.received(true, action) = now;
        return true;
      case ActionKind::start_send_gradient:
        transfers_.sent(false, action) = now;
        return true;
      case ActionKind::start_receive_gradient:
        transfers_.received(false, action) = now;
        return true;
      case ActionKind::wait_send_activation:
      case ActionKind::wait_receive_activation:
        return wait(stage, transfers_.over(true, action));
      case ActionKind::wait_send_gradient:
      case ActionKind::wait_receive_gradient:
        return wait(stage, transfers_.over(false, action));
    }
    return false;
  }

  void compute(size_t stage, const Action& action) {
    double& now = clock_[stage];
    const double seconds = seconds_of_(static_cast<int>(stage), action);
    timeline_.spans.push_back({static_cast<int>(stage), action, now, now + seconds});
    timeline_.busy[stage] += seconds;
    now += seconds;
  }

  bool wait(size_t stage, double over) {
    if (over == kNever) return false;
    clock_[stage] = std::max(clock_[stage], over);
    return true;
  }

  void require_finished() const {
    std::string stuck;
    for (size_t stage = 0; stage < schedule_.size(); ++stage) {
      if (next_[stage] == schedule_[stage].size()) continue;
      const Action& action = schedule_[stage][next_[stage]];
      stuck += fmt::format("; stage {} in {} of micro-batch {} with stage {}", stage, action.kind,
                           action.micro_batch, action.peer);
    }
    if (!stuck.empty()) throw InternalError("the schedule does not finish" + stuck);
  }

  const std::vector<std::vector<Action>>& schedule_;
  FunctionRef<double(int stage, const Action& action)> seconds_of_;
  Timeline timeline_;
  Transfers transfers_;
  std::vector<double> clock_;
  std::vector<size_t> next_;
};

}  // namespace

Timeline simulate(const std::vector<std::vector<Action>>& schedule,
                  FunctionRef<double(int stage, const Action& action)> seconds_of) {
  return Simulation(schedule, seconds_of).run();
}

}  // namespace megalith::parallel
