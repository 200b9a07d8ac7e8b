// SPDX-License-Identifier: Apache-2.0
#include "parallel/shared_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"

namespace megalith::parallel {
namespace {

/// From event to event: between two of them the same stages compute.
class Sharing {
 public:
  Sharing(const std::vector<std::vector<Action>>& schedule,
          FunctionRef<double(int stage, const Action& action)> seconds_of,
          FunctionRef<double(int stages)> share_of)
      : schedule_(schedule),
        seconds_of_(seconds_of),
        share_of_(share_of),
        next_(schedule.size(), 0),
        left_(schedule.size(), kIdle) {
    timeline_.busy.assign(schedule.size(), 0);
  }

  Timeline run() {
    for (;;) {
      start_all();
      const auto computing =
          static_cast<int>(std::ranges::count_if(left_, [](double left) { return left != kIdle; }));
      if (computing == 0) break;
      pass(share_of_(computing));
    }
    for (size_t stage = 0; stage < schedule_.size(); ++stage) {
      if (next_[stage] < schedule_[stage].size())
        throw InternalError(fmt::format(
            "the schedule does not finish; stage {} waits in {} of micro-batch {}", stage,
            schedule_[stage][next_[stage]].kind, schedule_[stage][next_[stage]].micro_batch));
    }
    timeline_.end = now_;
    return std::move(timeline_);
  }

 private:
  static constexpr double kIdle = -1;
  using End = std::tuple<bool, bool, int, int>;  // activation, sent, boundary, micro-batch

  /// Every stage up to its next computation, or to a transfer whose other end has not started.
  void start_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < schedule_.size(); ++stage) {
        while (left_[stage] == kIdle && next_[stage] < schedule_[stage].size() && act(stage)) {
          ++next_[stage];
          moved = true;
        }
      }
    }
  }
  bool act(size_t stage) {
    const Action& a = schedule_[stage][next_[stage]];
    switch (a.kind) {
      case ActionKind::forward:
      case ActionKind::backward:
        left_[stage] = seconds_of_(static_cast<int>(stage), a);
        timeline_.spans.push_back({static_cast<int>(stage), a, now_, now_});
        running_[stage] = timeline_.spans.size() - 1;
        return true;
      case ActionKind::start_send_activation:
        return started_.insert({true, true, a.boundary, a.micro_batch}).second;
      case ActionKind::start_receive_activation:
        return started_.insert({true, false, a.boundary, a.micro_batch}).second;
      case ActionKind::start_send_gradient:
        return started_.insert({false, true, a.boundary, a.micro_batch}).second;
      case ActionKind::start_receive_gradient:
        return started_.insert({false, false, a.boundary, a.micro_batch}).second;
      case ActionKind::wait_send_activation:
      case ActionKind::wait_receive_activation:
        return both_started(true, a);
      case ActionKind::wait_send_gradient:
      case ActionKind::wait_receive_gradient:
        return both_started(false, a);
    }
    return false;
  }
  bool both_started(bool activation, const Action& a) const {
    return started_.contains({activation, true, a.boundary, a.micro_batch}) &&
           started_.contains({activation, false, a.boundary, a.micro_batch});
  }

  /// Until the first of those that compute has done so.
  void pass(double share) {
    MEGA_CHECK(share > 0 && share <= 1, "a share of {}", share);
    double least = std::numeric_limits<double>::infinity();
    for (const double left : left_) {
      if (left != kIdle) least = std::min(least, left);
    }
    now_ += least / share;
    for (size_t stage = 0; stage < left_.size(); ++stage) {
      if (left_[stage] == kIdle) continue;
      timeline_.busy[stage] += least / share;
      left_[stage] -= least;
      if (left_[stage] > 0) continue;
      left_[stage] = kIdle;
      timeline_.spans[running_.at(stage)].end = now_;
    }
  }

  const std::vector<std::vector<Action>>& schedule_;
  FunctionRef<double(int stage, const Action& action)> seconds_of_;
  FunctionRef<double(int stages)> share_of_;
  Timeline timeline_;
  double now_ = 0;
  std::vector<size_t> next_;          // action
  std::vector<double> left_;          // of the one that computes, with a core of its own
  std::map<size_t, size_t> running_;  // by stage: its span
  std::set<End> started_;
};

}  // namespace

Timeline simulate_shared(const std::vector<std::vector<Action>>& schedule,
                         FunctionRef<double(int stage, const Action& action)> seconds_of,
                         FunctionRef<double(int stages)> share_of) {
  return Sharing(schedule, seconds_of, share_of).run();
}

}  // namespace megalith::parallel
