// SPDX-License-Identifier: Apache-2.0
#include "parallel/executor.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "base/check.h"

namespace megalith::parallel {
namespace {

// Activations and gradients between the same two stages keep an order of their own each.
constexpr int kActivations = 0;
constexpr int kGradients = 1;

class Executor {
 public:
  Executor(comm::Communicator& pipeline, StageWork& work) : pipeline_(pipeline), work_(work) {}

  void run(const Action& a) {
    pipeline_.heartbeat();  // other stages, and other ranks of this one, wait for it
    switch (a.kind) {
      case ActionKind::forward:
        return work_.forward(a.micro_batch, a.chunk);
      case ActionKind::backward:
        return work_.backward(a.micro_batch, a.chunk);
      case ActionKind::start_send_activation:
        return start(a, kActivations, true,
                     pipeline_.start_send(a.peer, work_.output(a.micro_batch, a.chunk),
                                          label("activation", a), kActivations));
      case ActionKind::start_receive_activation:
        return start(a, kActivations, false,
                     pipeline_.start_receive(a.peer, work_.input(a.micro_batch, a.chunk),
                                             label("activation", a), kActivations));
      case ActionKind::start_send_gradient:
        return start(a, kGradients, true,
                     pipeline_.start_send(a.peer, work_.input_gradient(a.micro_batch, a.chunk),
                                          label("gradient", a), kGradients));
      case ActionKind::start_receive_gradient:
        return start(a, kGradients, false,
                     pipeline_.start_receive(a.peer, work_.output_gradient(a.micro_batch, a.chunk),
                                             label("gradient", a), kGradients));
      case ActionKind::wait_send_activation:
        wait(a, kActivations, true);
        return work_.output_sent(a.micro_batch, a.chunk);
      case ActionKind::wait_send_gradient:
        wait(a, kGradients, true);
        return work_.input_gradient_sent(a.micro_batch, a.chunk);
      case ActionKind::wait_receive_activation:
        return wait(a, kActivations, false);
      case ActionKind::wait_receive_gradient:
        return wait(a, kGradients, false);
    }
  }

  bool all_waited_for() const { return tickets_.empty(); }

 private:
  using Key = std::tuple<int, bool, int, int>;  // channel, is a send, boundary, micro-batch
  static Key key_of(const Action& a, int channel, bool is_send) {
    return {channel, is_send, a.boundary, a.micro_batch};
  }
  static std::string label(std::string_view what, const Action& a) {
    return fmt::format("{} of micro-batch {} at boundary {}", what, a.micro_batch, a.boundary);
  }
  void start(const Action& a, int channel, bool is_send, comm::Ticket ticket) {
    const bool added = tickets_.try_emplace(key_of(a, channel, is_send), std::move(ticket)).second;
    MEGA_CHECK(added, "{} of micro-batch {} started twice", a.kind, a.micro_batch);
  }
  void wait(const Action& a, int channel, bool is_send) {
    auto node = tickets_.extract(key_of(a, channel, is_send));
    MEGA_CHECK(!node.empty(), "{} of micro-batch {} before its start", a.kind, a.micro_batch);
    pipeline_.wait(std::move(node.mapped()));
  }

  comm::Communicator& pipeline_;
  StageWork& work_;
  std::map<Key, comm::Ticket> tickets_;
};

}  // namespace

void execute(std::span<const Action> actions, comm::Communicator& pipeline, StageWork& work) {
  Executor executor(pipeline, work);
  for (const Action& action : actions) executor.run(action);
  MEGA_CHECK(executor.all_waited_for(), "a schedule left transfers in flight");
}

}  // namespace megalith::parallel
