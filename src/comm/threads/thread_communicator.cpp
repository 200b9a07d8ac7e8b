// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/thread_communicator.h"

#include <fmt/format.h>

#include <exception>

#include "base/check.h"
#include "base/clock.h"
#include "comm/timeout.h"

namespace megalith::comm {
namespace {

class ThreadPending final : public Pending {
 public:
  ThreadPending(std::shared_ptr<Group> group, std::shared_ptr<RankState> state, int rank,
                const CallNumber& number, device::Device* device,
                std::shared_ptr<Rendezvous> rendezvous)
      : group_(std::move(group)),
        state_(std::move(state)),
        rank_(rank),
        number_(number),
        device_(device),
        rendezvous_(std::move(rendezvous)),
        exceptions_(std::uncaught_exceptions()) {}

  ~ThreadPending() override {
    if (rendezvous_ == nullptr) return;
    rendezvous_->withdraw();
    if (std::uncaught_exceptions() > exceptions_ || group_->world().failed()) return;
    group_->world().fail({ExitCode::failure, text() + ": its ticket was destroyed without a wait"});
  }

  void wait() override {
    try {
      Timeout timeout(state_->deadline_seconds, monotonic_seconds());
      await(timeout, [this] { return rendezvous_->all_posted(); });
      const int place = number_.is_transfer() ? 0 : rank_;
      if (rendezvous_->do_units(place, device_)) notify_others();
      await(timeout, [this] { return rendezvous_->done(); });
    } catch (...) {
      rendezvous_->withdraw();
      rendezvous_ = nullptr;
      throw;
    }
    rendezvous_ = nullptr;
  }

 private:
  /// "rank 2 on node7 in step 7, all_gather 'x' of 12 f32 (call 5 of group 'tensor')"
  std::string text() const {
    return fmt::format("{}, {} ({} of group '{}')", state_->place(), describe(rendezvous_->first()),
                       number_.text(), group_->name());
  }

  int rank_of(int place) const { return number_.rank_of(place); }

  void notify_others() {
    for (int place = 0; place < rendezvous_->places(); ++place) {
      if (rank_of(place) != rank_) group_->event(rank_of(place)).notify();
    }
  }

  template <typename Condition>
  void await(Timeout& timeout, Condition condition) {
    World& world = group_->world();
    EventCount& event = group_->event(rank_);
    uint64_t heartbeats = world.heartbeats();
    while (true) {
      const uint32_t seen = event.count();
      if (condition()) return;
      if (world.failed()) world.throw_failure(text());
      if (world.any_left()) check_nobody_left();
      const double now = monotonic_seconds();
      if (const uint64_t given = world.heartbeats(); given != heartbeats) {
        timeout.restart(now);
        heartbeats = given;
      }
      if (timeout.expired(now)) throw_late();
      event.wait(seen, timeout.next_check(), world.spins());
    }
  }

  /// A rank that has returned will never post.
  void check_nobody_left() {
    for (int place = 0; place < rendezvous_->places(); ++place) {
      const int absent = group_->world_rank(rank_of(place));
      if (!group_->world().has_left(absent) || group_->has_posted(*rendezvous_, place)) continue;
      // It may have left because it failed.
      if (group_->world().failed()) group_->world().throw_failure(text());
      throw CallError(ExitCode::failure, fmt::format("{}: rank {} has ended without this call; {}",
                                                     text(), absent, last_call(absent)));
    }
  }

  [[noreturn]] void throw_late() {
    std::string absent;
    for (int place = 0; place < rendezvous_->places(); ++place) {
      if (group_->has_posted(*rendezvous_, place)) continue;
      const int rank = group_->world_rank(rank_of(place));
      absent += fmt::format("; rank {} has not started it, {}", rank, last_call(rank));
    }
    if (absent.empty()) absent = "; all ranks have started it, one does not finish its copies";
    throw CallError(ExitCode::failure, fmt::format("{}: waited {} s, the deadline{}", text(),
                                                   state_->deadline_seconds, absent));
  }

  std::string last_call(int world_rank) const {
    return group_->world().last_call(world_rank, group_->thread());
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<RankState> state_;
  int rank_;
  CallNumber number_;
  device::Device* device_;  // of the call's views; null: the host
  std::shared_ptr<Rendezvous> rendezvous_;
  int exceptions_;
};

}  // namespace

std::shared_ptr<Rendezvous> Group::post(int rank, const RankState& state, const CallNumber& number,
                                        const Operation& operation) {
  const int place = number.place_of(rank);
  std::shared_ptr<Rendezvous> rendezvous;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Rendezvous>& open = open_[number];
    if (open == nullptr)
      open = std::make_shared<Rendezvous>(number.is_transfer() ? 2 : size(), operation);
    if (!open->matches(operation)) {
      throw CallError(
          ExitCode::failure,
          fmt::format("{}: ranks disagree on {} of group '{}': rank {} calls {}, rank {} calls {}",
                      state.place(), number.text(), name_,
                      world_rank(number.rank_of(open->first_place())), describe(open->first()),
                      world_rank(rank), describe(operation)));
    }
    open->post(place, operation);
    rendezvous = open;
    if (rendezvous->all_posted()) open_.erase(number);
  }
  if (rendezvous->all_posted()) {
    for (int p = 0; p < rendezvous->places(); ++p) {
      if (p != place) event(number.rank_of(p)).notify();
    }
  }
  return rendezvous;
}

bool Group::has_posted(const Rendezvous& rendezvous, int place) {
  const std::lock_guard lock(mutex_);
  return rendezvous.has_posted(place);
}

std::shared_ptr<Group> Group::child(uint64_t split_number, int color, std::string name,
                                    std::vector<int> world_ranks, int thread) {
  const std::lock_guard lock(mutex_);
  Child& child = children_[{split_number, color}];
  if (child.group == nullptr) {
    child.group = std::make_shared<Group>(world_, std::move(name), std::move(world_ranks), thread);
  }
  const std::shared_ptr<Group> group = child.group;
  if (++child.asked == group->size()) children_.erase({split_number, color});
  return group;
}

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<Group> group, int rank,
                                       std::shared_ptr<RankState> state)
    : Communicator(rank, group->size(), group->name(), std::move(state)),
      group_(std::move(group)) {}

void ThreadCommunicator::abort(const std::string& cause) {
  group_->world().fail({ExitCode::failure, state().told(cause)});
}

Ticket ThreadCommunicator::start(const Operation& operation) {
  World& world = group_->world();
  if (world.failed()) {
    world.throw_failure(
        fmt::format("{}, {} of group '{}'", state().place(), describe(operation), name()));
  }
  if (size() == 1) return copy_to_self(operation);
  MemoryMover(operation.device).wait();  // for what made the sources and reads the targets
  world.note_call(state().world_rank, group_->thread(), operation, name());
  const CallNumber number = numbers_.next(operation, rank());
  std::shared_ptr<Rendezvous> rendezvous = group_->post(rank(), state(), number, operation);
  return Ticket(std::make_unique<ThreadPending>(group_, shared_state(), rank(), number,
                                                operation.device, std::move(rendezvous)));
}

std::unique_ptr<Communicator> ThreadCommunicator::make_group(std::span<const int> members, int rank,
                                                             int color, std::string name) {
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(group_->world_rank(member));
  auto group =
      group_->child(splits_++, color, std::move(name), std::move(world_ranks), group_->thread());
  return std::make_unique<ThreadCommunicator>(std::move(group), rank, shared_state());
}

std::unique_ptr<ControlMessages> ThreadCommunicator::make_second(std::shared_ptr<RankState> state,
                                                                 std::string name) {
  MEGA_CHECK_EQ(group_->thread(), 0);
  std::vector<int> world_ranks;
  for (int r = 0; r < size(); ++r) world_ranks.push_back(group_->world_rank(r));
  auto group = group_->child(splits_++, 0, std::move(name), std::move(world_ranks), 1);
  return std::make_unique<ThreadCommunicator>(std::move(group), rank(), std::move(state));
}

}  // namespace megalith::comm
