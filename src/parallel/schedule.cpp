// SPDX-License-Identifier: Apache-2.0
// Two steps: the order of a stage's computations, then the transfers around them. A receive is
// started one computation ahead, so that it runs under that computation; a send is waited for when
// the next one of its kind is to start, so that it runs under at least one computation.
#include "parallel/schedule.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/check.h"

namespace megalith::parallel {
namespace {

struct Compute {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
};

/// Micro-batches in the largest group of order_of.
int largest_group(int stages, int micro_batches) {
  return micro_batches < stages ? micro_batches : stages + micro_batches % stages;
}

/// Groups of micro-batches go through all chunks before the next group starts. A group has `stages`
/// of them, so that the first comes round to the first stage when the last has left it; what is
/// left over joins the last group (a smaller group of its own would hang).
std::vector<Compute> order_of(bool is_forward, int stages, int micro_batches, int chunks) {
  std::vector<Compute> order;
  for (int begin = 0, end = 0; begin < micro_batches; begin = end) {
    end = micro_batches - begin < 2 * stages ? micro_batches : begin + stages;
    for (int i = 0; i < chunks; ++i) {
      const int chunk = is_forward ? i : chunks - 1 - i;
      for (int m = begin; m < end; ++m) order.push_back({is_forward, m, chunk});
    }
  }
  return order;
}

/// Forwards before the first backward, less the one that the first pair begins with.
int num_warm_up(ScheduleKind kind, int stages, int stage, int micro_batches, int chunks) {
  const int all = micro_batches * chunks;
  const int behind = stages - 1 - stage;
  if (kind == ScheduleKind::gpipe) return all;
  if (chunks == 1) return std::min(all, behind);
  return std::min(all, 2 * behind + (chunks - 1) * largest_group(stages, micro_batches));
}

std::vector<Compute> computations(ScheduleKind kind, int stages, int stage, int micro_batches,
                                  int chunks) {
  const auto forwards = order_of(true, stages, micro_batches, chunks);
  const auto backwards = order_of(false, stages, micro_batches, chunks);
  const auto warm_up = num_warm_up(kind, stages, stage, micro_batches, chunks);
  std::vector<Compute> sequence(forwards.begin(), forwards.begin() + warm_up);
  auto backward = backwards.begin();
  for (auto forward = forwards.begin() + warm_up; forward != forwards.end(); ++forward) {
    sequence.push_back(*forward);
    sequence.push_back(*backward++);
  }
  sequence.insert(sequence.end(), backward, backwards.end());
  return sequence;
}

/// Writes one stage's list around its computations.
class StageWriter {
 public:
  /// `window`: how many sends of one kind may be under way.
  StageWriter(int stages, int stage, int chunks, size_t window)
      : stages_(stages), stage_(stage), virtual_stages_(stages * chunks), window_(window) {}

  std::vector<Action> write(const std::vector<Compute>& sequence) {
    if (!sequence.empty()) receive(sequence[0], true);
    for (size_t i = 0; i < sequence.size(); ++i) {
      receive(sequence[i], false);
      if (i + 1 < sequence.size()) receive(sequence[i + 1], true);
      const Compute& now = sequence[i];
      actions_.push_back({now.is_forward ? ActionKind::forward : ActionKind::backward,
                          now.micro_batch, now.chunk, -1, -1});
      send(now);
    }
    for (std::deque<Action>& sends : sends_) {
      while (!sends.empty()) wait_for_oldest(sends);
    }
    return std::move(actions_);
  }

 private:
  int virtual_stage(const Compute& c) const { return c.chunk * stages_ + stage_; }
  int next() const { return (stage_ + 1) % stages_; }
  int previous() const { return (stage_ + stages_ - 1) % stages_; }

  void receive(const Compute& c, bool start) {
    const int k = virtual_stage(c);
    if (stages_ == 1 || (c.is_forward ? k == 0 : k == virtual_stages_ - 1)) return;
    if (c.is_forward) {
      actions_.push_back(
          {start ? ActionKind::start_receive_activation : ActionKind::wait_receive_activation,
           c.micro_batch, c.chunk, previous(), k});
    } else {
      actions_.push_back(
          {start ? ActionKind::start_receive_gradient : ActionKind::wait_receive_gradient,
           c.micro_batch, c.chunk, next(), k + 1});
    }
  }

  void send(const Compute& c) {
    const int k = virtual_stage(c);
    if (stages_ == 1 || (c.is_forward ? k == virtual_stages_ - 1 : k == 0)) return;
    std::deque<Action>& sends = sends_[c.is_forward ? 0 : 1];
    if (sends.size() == window_) wait_for_oldest(sends);
    sends.push_back(
        c.is_forward
            ? Action{ActionKind::start_send_activation, c.micro_batch, c.chunk, next(), k + 1}
            : Action{ActionKind::start_send_gradient, c.micro_batch, c.chunk, previous(), k});
    actions_.push_back(sends.back());
  }

  void wait_for_oldest(std::deque<Action>& sends) {
    Action wait = sends.front();
    sends.pop_front();
    wait.kind = wait.kind == ActionKind::start_send_activation ? ActionKind::wait_send_activation
                                                               : ActionKind::wait_send_gradient;
    actions_.push_back(wait);
  }

  int stages_;
  int stage_;
  int virtual_stages_;
  size_t window_;
  std::vector<Action> actions_;
  std::array<std::deque<Action>, 2> sends_;  // under way: activations, gradients
};

}  // namespace

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::start_send_activation:
      return "start_send_activation";
    case ActionKind::wait_send_activation:
      return "wait_send_activation";
    case ActionKind::start_receive_activation:
      return "start_receive_activation";
    case ActionKind::wait_receive_activation:
      return "wait_receive_activation";
    case ActionKind::start_send_gradient:
      return "start_send_gradient";
    case ActionKind::wait_send_gradient:
      return "wait_send_gradient";
    case ActionKind::start_receive_gradient:
      return "start_receive_gradient";
    case ActionKind::wait_receive_gradient:
      return "wait_receive_gradient";
  }
  return "unknown";
}

std::vector<std::vector<Action>> make_schedule(ScheduleKind kind, int stages, int micro_batches,
                                               int chunks) {
  MEGA_CHECK(stages >= 1 && micro_batches >= 0 && chunks >= 1,
             "{} stages, {} micro-batches, {} chunks", stages, micro_batches, chunks);
  MEGA_CHECK(chunks == 1 || kind == ScheduleKind::interleaved, "{} with {} chunks", kind, chunks);
  // In a group that is larger than the pipeline is long, the first stage takes that many
  // micro-batches more before it turns to what came round.
  const size_t window =
      chunks == 1
          ? 1
          : static_cast<size_t>(1 + std::max(0, largest_group(stages, micro_batches) - stages));
  std::vector<std::vector<Action>> schedule;
  for (int stage = 0; stage < stages; ++stage) {
    schedule.push_back(StageWriter(stages, stage, chunks, window)
                           .write(computations(kind, stages, stage, micro_batches, chunks)));
  }
  return schedule;
}

int peak_in_flight(const std::vector<Action>& actions) {
  int in_flight = 0, peak = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++in_flight);
    if (action.kind == ActionKind::backward) --in_flight;
  }
  return peak;
}

}  // namespace megalith::parallel
