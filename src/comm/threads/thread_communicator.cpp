// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/thread_communicator.h"

#include <fmt/format.h>

#include <exception>

#include "base/check.h"
#include "base/clock.h"
#include "comm/patience.h"

namespace megalith::comm {
namespace {

std::string number_text(const CallNumber& number) {
  const auto [sender, receiver, channel, k] = number;
  if (sender < 0) return fmt::format("call {}", k);
  return fmt::format("message {} from {} to {} on channel {}", k, sender, receiver, channel);
}

class ThreadPending final : public Pending {
 public:
  ThreadPending(std::shared_ptr<Group> group, std::shared_ptr<RankState> state, int rank,
                const CallNumber& number, std::shared_ptr<Meeting> meeting)
      : group_(std::move(group)),
        state_(std::move(state)),
        rank_(rank),
        number_(number),
        meeting_(std::move(meeting)),
        exceptions_(std::uncaught_exceptions()) {}

  ~ThreadPending() override {
    if (meeting_ == nullptr) return;
    meeting_->withdraw();
    if (std::uncaught_exceptions() > exceptions_ || group_->world().failed()) return;
    group_->world().fail({ExitCode::failure, text() + ": its ticket was destroyed without a wait"});
  }

  void wait() override {
    try {
      Patience patience(state_->deadline_seconds, monotonic_seconds());
      await(patience, [this] { return meeting_->all_posted(); });
      const int place = std::get<0>(number_) < 0 ? rank_ : 0;
      if (meeting_->do_units(place)) ring_others();
      await(patience, [this] { return meeting_->done(); });
    } catch (...) {
      meeting_->withdraw();
      meeting_ = nullptr;
      throw;
    }
    meeting_ = nullptr;
  }

 private:
  /// "rank 2 on node7 in step 7, all_gather 'x' of 12 f32 (call 5 of group 'tensor')"
  std::string text() const {
    return fmt::format("{}, {} ({} of group '{}')", state_->place(), describe(meeting_->first()),
                       number_text(number_), group_->name());
  }

  /// The rank in the group of a place in the meeting.
  int rank_of(int place) const {
    const auto [sender, receiver, channel, k] = number_;
    return sender < 0 ? place : place == 0 ? sender : receiver;
  }

  void ring_others() {
    for (int place = 0; place < meeting_->places(); ++place) {
      if (rank_of(place) != rank_) group_->bell(rank_of(place)).ring();
    }
  }

  template <typename Condition>
  void await(Patience& patience, Condition condition) {
    World& world = group_->world();
    Doorbell& bell = group_->bell(rank_);
    uint64_t signs = world.signs_of_life();
    while (true) {
      const uint32_t seen = bell.rings();
      if (condition()) return;
      if (world.failed()) world.throw_failure(text());
      if (world.any_left()) check_nobody_left();
      const double now = monotonic_seconds();
      if (const uint64_t given = world.signs_of_life(); given != signs) {
        patience.renew(now);
        signs = given;
      }
      if (patience.ends(now)) throw_late();
      bell.wait(seen, patience.next(), world.spins());
    }
  }

  /// A rank that has returned will never post.
  void check_nobody_left() {
    for (int place = 0; place < meeting_->places(); ++place) {
      const int absent = group_->world_rank(rank_of(place));
      if (!group_->world().has_left(absent) || group_->has_posted(*meeting_, place)) continue;
      // It may have left because it failed.
      if (group_->world().failed()) group_->world().throw_failure(text());
      throw CallError(ExitCode::failure, fmt::format("{}: rank {} has ended without this call; {}",
                                                     text(), absent, last_call(absent)));
    }
  }

  [[noreturn]] void throw_late() {
    std::string absent;
    for (int place = 0; place < meeting_->places(); ++place) {
      if (group_->has_posted(*meeting_, place)) continue;
      const int rank = group_->world_rank(rank_of(place));
      absent += fmt::format("; rank {} has not started it, {}", rank, last_call(rank));
    }
    if (absent.empty()) absent = "; all ranks have started it, one does not finish its copies";
    throw CallError(ExitCode::failure, fmt::format("{}: waited {} s, the deadline{}", text(),
                                                   state_->deadline_seconds, absent));
  }

  std::string last_call(int world_rank) const {
    return group_->world().last_call(world_rank, group_->lane());
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<RankState> state_;
  int rank_;
  CallNumber number_;
  std::shared_ptr<Meeting> meeting_;
  int exceptions_;
};

}  // namespace

std::shared_ptr<Meeting> Group::post(int rank, const RankState& state, const CallNumber& number,
                                     const Operation& operation) {
  const auto [sender, receiver, channel, k] = number;
  const bool is_transfer = sender >= 0;
  const int place = is_transfer ? (rank == sender ? 0 : 1) : rank;
  const auto at = [&, from = sender, to = receiver](int p) {
    return !is_transfer ? p : p == 0 ? from : to;
  };
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Meeting>& open = open_[number];
    if (open == nullptr) open = std::make_shared<Meeting>(is_transfer ? 2 : size(), operation);
    if (!open->matches(operation)) {
      throw CallError(
          ExitCode::failure,
          fmt::format("{}: ranks disagree on {} of group '{}': rank {} calls {}, rank {} calls {}",
                      state.place(), number_text(number), name_,
                      world_rank(at(open->first_place())), describe(open->first()),
                      world_rank(at(place)), describe(operation)));
    }
    open->post(place, operation);
    meeting = open;
    if (meeting->all_posted()) open_.erase(number);
  }
  if (meeting->all_posted()) {
    for (int p = 0; p < meeting->places(); ++p) {
      if (p != place) bell(at(p)).ring();
    }
  }
  return meeting;
}

bool Group::has_posted(const Meeting& meeting, int place) {
  const std::lock_guard lock(mutex_);
  return meeting.has_posted(place);
}

std::shared_ptr<Group> Group::child(uint64_t split_number, int color, std::string name,
                                    std::vector<int> world_ranks, int lane) {
  const std::lock_guard lock(mutex_);
  Child& child = children_[{split_number, color}];
  if (child.group == nullptr) {
    child.group = std::make_shared<Group>(world_, std::move(name), std::move(world_ranks), lane);
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

CallNumber ThreadCommunicator::next_number(const Operation& operation) {
  if (operation.kind != OperationKind::transfer) return {-1, -1, 0, next_collective_++};
  const int sender = operation.is_sender ? rank() : operation.peer;
  const int receiver = operation.is_sender ? operation.peer : rank();
  return {sender, receiver, operation.channel,
          next_transfer_[{sender, receiver, operation.channel}]++};
}

Ticket ThreadCommunicator::start(const Operation& operation) {
  World& world = group_->world();
  if (world.failed()) {
    world.throw_failure(
        fmt::format("{}, {} of group '{}'", state().place(), describe(operation), name()));
  }
  if (size() == 1) {
    if (operation.source && operation.target && operation.count > 0 &&
        operation.source.data() != operation.target.data()) {
      std::memcpy(operation.target.data(), operation.source.data(),
                  static_cast<size_t>(operation.source.bytes()));
    }
    return {};
  }
  world.note_call(state().world_rank, group_->lane(), operation, name());
  const CallNumber number = next_number(operation);
  std::shared_ptr<Meeting> meeting = group_->post(rank(), state(), number, operation);
  return Ticket(
      std::make_unique<ThreadPending>(group_, shared_state(), rank(), number, std::move(meeting)));
}

std::unique_ptr<Communicator> ThreadCommunicator::make_group(std::span<const int> members, int rank,
                                                             int color, std::string name) {
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(group_->world_rank(member));
  auto group =
      group_->child(splits_++, color, std::move(name), std::move(world_ranks), group_->lane());
  return std::make_unique<ThreadCommunicator>(std::move(group), rank, shared_state());
}

std::unique_ptr<Communicator> ThreadCommunicator::make_second(std::shared_ptr<RankState> state,
                                                              std::string name) {
  MEGA_CHECK_EQ(group_->lane(), 0);
  std::vector<int> world_ranks;
  for (int r = 0; r < size(); ++r) world_ranks.push_back(group_->world_rank(r));
  auto group = group_->child(splits_++, 0, std::move(name), std::move(world_ranks), 1);
  return std::make_unique<ThreadCommunicator>(std::move(group), rank(), std::move(state));
}

}  // namespace megalith::comm
