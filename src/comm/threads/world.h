// SPDX-License-Identifier: Apache-2.0
// What all rank threads of one run share: their event counts, the first failure, who has left, and
// what each called last (for the message of a rank that waits in vain). A rank has two threads, one
// for each of the threads that may talk at the same time (training, saving).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/rank_state.h"
#include "comm/threads/event_count.h"

namespace megalith::comm {

class World {
 public:
  static constexpr int kThreads = 2;
  explicit World(int num_ranks);

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  EventCount& event(int rank, int thread) { return at(rank, thread).event; }
  /// Of whoever waits for the ranks: notified when one leaves or fails.
  EventCount& end_event() { return end_event_; }
  /// How long to poll before sleeping: not at all with more ranks than cores.
  int spins() const { return spins_; }

  /// The first call decides the cause, which names its rank (RankState::told); wakes every rank.
  void fail(Failure failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Throws a RankFailure; `where` says what the calling rank was doing. Only after failed().
  [[noreturn]] void throw_failure(const std::string& where) const;
  /// Only after failed(), or after all ranks have ended.
  const std::optional<Failure>& first_failure() const { return failure_; }

  /// Some rank is at work: restarts the timeout of all.
  void heartbeat() { heartbeats_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t heartbeats() const { return heartbeats_.load(std::memory_order_relaxed); }

  /// `rank` will make no more calls.
  void leave(int rank);
  bool has_left(int rank) const {
    return ranks_[static_cast<size_t>(rank)].left.load(std::memory_order_acquire);
  }
  /// Those of the first `started` ranks that have not.
  std::vector<int> still_here(int started) const;
  bool any_left() const { return any_left_.load(std::memory_order_acquire); }

  void note_call(int rank, int thread, const Operation& operation, const std::string& group);
  /// "its last call was barrier 'end of step' of group 'world'".
  std::string last_call(int rank, int thread) const;

 private:
  struct ThreadEvents {
    EventCount event;
    mutable std::mutex mutex;  // of the note
    LastCall call;
  };
  struct Rank {
    std::array<ThreadEvents, kThreads> threads;
    std::atomic<bool> left{false};
  };
  void notify_all();
  ThreadEvents& at(int rank, int thread) {
    return ranks_[static_cast<size_t>(rank)].threads[static_cast<size_t>(thread)];
  }
  const ThreadEvents& at(int rank, int thread) const {
    return ranks_[static_cast<size_t>(rank)].threads[static_cast<size_t>(thread)];
  }

  std::vector<Rank> ranks_;
  EventCount end_event_;
  int spins_;
  std::atomic<uint64_t> heartbeats_{0};
  std::atomic<bool> any_left_{false};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of the failure
  std::optional<Failure> failure_;
};

}  // namespace megalith::comm
