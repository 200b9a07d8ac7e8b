// SPDX-License-Identifier: Apache-2.0
// A rank that is a thread. A Group is shared by the ranks in it and holds the calls that not all of
// them have reached; each rank has its own ThreadCommunicator on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/communicator.h"
#include "comm/threads/meeting.h"
#include "comm/threads/world.h"

namespace megalith::comm {

/// (sender, receiver, channel, number); sender and receiver are -1 for the calls of all.
using CallNumber = std::tuple<int, int, int, uint64_t>;

class Group {
 public:
  /// `lane`: which of each rank's threads call on it.
  Group(World& world, std::string name, std::vector<int> world_ranks, int lane = 0)
      : world_(world), name_(std::move(name)), world_ranks_(std::move(world_ranks)), lane_(lane) {}

  World& world() const { return world_; }
  const std::string& name() const { return name_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  int lane() const { return lane_; }
  Doorbell& bell(int rank) const { return world_.bell(world_rank(rank), lane_); }

  /// Posts `operation` as `rank` (`state` is for the message). CallError naming both ranks and
  /// calls when it differs from what was posted first. Wakes the others when it was the last.
  std::shared_ptr<Meeting> post(int rank, const RankState& state, const CallNumber& number,
                                const Operation& operation);
  bool has_posted(const Meeting& meeting, int place);

  /// The group of `color` of the split with this number: made by the first member that asks.
  std::shared_ptr<Group> child(uint64_t split_number, int color, std::string name,
                               std::vector<int> world_ranks, int lane);

 private:
  World& world_;
  const std::string name_;
  const std::vector<int> world_ranks_;
  const int lane_;
  std::mutex mutex_;
  std::map<CallNumber, std::shared_ptr<Meeting>> open_;
  struct Child {
    std::shared_ptr<Group> group;
    int asked = 0;
  };
  std::map<std::pair<uint64_t, int>, Child> children_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<RankState> state);
  void sign_of_life() override { group_->world().sign_of_life(); }
  void abort(const std::string& cause) override;

 protected:
  Ticket start(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank, int color,
                                           std::string name) override;
  std::unique_ptr<Communicator> make_second(std::shared_ptr<RankState> state,
                                            std::string name) override;

 private:
  CallNumber next_number(const Operation& operation);
  std::shared_ptr<Group> group_;
  uint64_t next_collective_ = 0;
  uint64_t splits_ = 0;
  std::map<std::tuple<int, int, int>, uint64_t> next_transfer_;
};

}  // namespace megalith::comm
