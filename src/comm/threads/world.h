// SPDX-License-Identifier: Apache-2.0
// What all rank threads of one run share: their doorbells, the first failure, who has left, and
// what each called last (for the message of a rank that waits in vain). A rank has two lanes, one
// for each of the threads that may talk at the same time (training, saving).
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/operation.h"
#include "comm/threads/doorbell.h"

namespace megalith::comm {

class World {
 public:
  static constexpr int kLanes = 2;
  explicit World(int num_ranks);

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  Doorbell& bell(int rank, int lane) { return at(rank, lane).bell; }
  /// How long to poll before sleeping: not at all with more ranks than cores.
  int spins() const { return spins_; }

  /// The first call decides the cause; wakes every rank.
  void fail(int rank, std::exception_ptr error);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Throws a RankFailure; `where` says what the calling rank was doing. Only after failed().
  [[noreturn]] void throw_failure(const std::string& where) const;
  /// The first cause; null if none. After all ranks have ended.
  std::exception_ptr first_error() const { return error_; }

  /// `rank` will make no more calls.
  void leave(int rank);
  bool has_left(int rank) const {
    return ranks_[static_cast<size_t>(rank)].left.load(std::memory_order_acquire);
  }
  bool any_left() const { return any_left_.load(std::memory_order_acquire); }

  void note_call(int rank, int lane, const Operation& operation, const std::string& group);
  /// "its last call was barrier 'end of step' in group 'world'".
  std::string last_call(int rank, int lane) const;

 private:
  struct Lane {
    Doorbell bell;
    mutable std::mutex mutex;  // of the note
    bool has_called = false;
    OperationKind kind = OperationKind::barrier;
    std::string label;
    std::string group;
  };
  struct Rank {
    std::array<Lane, kLanes> lanes;
    std::atomic<bool> left{false};
  };
  void ring_all();
  Lane& at(int rank, int lane) {
    return ranks_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)];
  }
  const Lane& at(int rank, int lane) const {
    return ranks_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)];
  }

  std::vector<Rank> ranks_;
  int spins_;
  std::atomic<bool> any_left_{false};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of the failure
  int failed_rank_ = -1;
  ExitCode code_ = ExitCode::failure;
  std::string cause_;
  std::exception_ptr error_;
};

}  // namespace megalith::comm
