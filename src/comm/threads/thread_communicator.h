// SPDX-License-Identifier: Apache-2.0
// A rank that is a thread. A Group is shared by the ranks in it and holds the calls that not all of
// them have reached; each rank has its own ThreadCommunicator on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/call_number.h"
#include "comm/communicator.h"
#include "comm/threads/rendezvous.h"
#include "comm/threads/world.h"

namespace megalith::comm {

class Group {
 public:
  /// `thread`: which of each rank's threads call on it.
  Group(World& world, std::string name, std::vector<int> world_ranks, int thread = 0)
      : world_(world),
        name_(std::move(name)),
        world_ranks_(std::move(world_ranks)),
        thread_(thread) {}

  World& world() const { return world_; }
  const std::string& name() const { return name_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  int thread() const { return thread_; }
  EventCount& event(int rank) const { return world_.event(world_rank(rank), thread_); }

  /// Posts `operation` as `rank` (`state` is for the message). CallError naming both ranks and
  /// calls when it differs from what was posted first. Wakes the others when it was the last.
  std::shared_ptr<Rendezvous> post(int rank, const RankState& state, const CallNumber& number,
                                   const Operation& operation);
  bool has_posted(const Rendezvous& rendezvous, int place);

  /// The group of `color` of the split with this number: made by the first member that asks.
  std::shared_ptr<Group> child(uint64_t split_number, int color, std::string name,
                               std::vector<int> world_ranks, int thread);

 private:
  World& world_;
  const std::string name_;
  const std::vector<int> world_ranks_;
  const int thread_;
  std::mutex mutex_;
  std::map<CallNumber, std::shared_ptr<Rendezvous>> open_;
  struct Child {
    std::shared_ptr<Group> group;
    int asked = 0;
  };
  std::map<std::pair<uint64_t, int>, Child> children_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<RankState> state);
  void heartbeat() override { group_->world().heartbeat(); }
  void abort(const std::string& cause) override;

 protected:
  Ticket start(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank, int color,
                                           std::string name) override;
  std::unique_ptr<ControlMessages> make_second(std::shared_ptr<RankState> state,
                                               std::string name) override;

 private:
  std::shared_ptr<Group> group_;
  CallNumbers numbers_;
  uint64_t splits_ = 0;
};

}  // namespace megalith::comm
