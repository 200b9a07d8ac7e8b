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

}  // namespace

Timeline simulate(const std::vector<std::vector<Action>>& schedule,
                  FunctionRef<double(int stage, const Action& action)> seconds_of) {
  Timeline timeline;
  Transfers transfers(schedule);
  std::vector<double> clock(schedule.size(), 0);
  std::vector<size_t> next(schedule.size(), 0);
  timeline.busy.assign(schedule.size(), 0);

  // False when the stage has to wait for a transfer whose other end has not started.
  const auto step = [&](size_t stage, const Action& action) {
    double& now = clock[stage];
    const auto wait = [&](bool activation) {
      const double over = transfers.over(activation, action);
      if (over == kNever) return false;
      now = std::max(now, over);
      return true;
    };
    switch (action.kind) {
      case ActionKind::forward:
      case ActionKind::backward: {
        const double seconds = seconds_of(static_cast<int>(stage), action);
        timeline.spans.push_back({static_cast<int>(stage), action, now, now + seconds});
        timeline.busy[stage] += seconds;
        now += seconds;
        return true;
      }
      case ActionKind::start_send_activation:
        transfers.sent(true, action) = now;
        return true;
      case ActionKind::start_receive_activation:
        transfers.received(true, action) = now;
        return true;
      case ActionKind::start_send_gradient:
        transfers.sent(false, action) = now;
        return true;
      case ActionKind::start_receive_gradient:
        transfers.received(false, action) = now;
        return true;
      case ActionKind::wait_send_activation:
      case ActionKind::wait_receive_activation:
        return wait(true);
      case ActionKind::wait_send_gradient:
      case ActionKind::wait_receive_gradient:
        return wait(false);
    }
    return false;
  };

  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < schedule.size(); ++stage) {
      while (next[stage] < schedule[stage].size() && step(stage, schedule[stage][next[stage]])) {
        ++next[stage];
        moved = true;
      }
    }
  }
  std::string stuck;
  for (size_t stage = 0; stage < schedule.size(); ++stage) {
    timeline.end = std::max(timeline.end, clock[stage]);
    if (next[stage] == schedule[stage].size()) continue;
    const Action& action = schedule[stage][next[stage]];
    stuck += fmt::format("; stage {} in {} of micro-batch {} with stage {}", stage, action.kind,
                         action.micro_batch, action.peer);
  }
  if (!stuck.empty()) throw InternalError("the schedule does not finish" + stuck);
  return timeline;
}

}  // namespace megalith::parallel
