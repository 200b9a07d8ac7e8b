// SPDX-License-Identifier: Apache-2.0
// What the communicators of one process share when ranks are processes: the transport, who the
// others are, the first failure of any rank. The notice of a failure travels by a tag of its own
// and is looked for whenever a rank waits.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/failure.h"
#include "comm/messages/transport.h"

namespace megalith::comm {

class MessageWorld {
 public:
  /// Tags of one group: its calls, and each channel of its transfers.
  static constexpr int kTagsPerGroup = 16;

  explicit MessageWorld(Transport& transport);
  ~MessageWorld();
  MessageWorld(const MessageWorld&) = delete;
  MessageWorld& operator=(const MessageWorld&) = delete;

  Transport& transport() const { return transport_; }
  /// "rank 3 on node7" once the hosts are known.
  std::string name_of(int rank) const;
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  /// The first failure of any rank decides the cause, which names its rank (RankState::told). If it
  /// is this one, all other ranks are told, and it returns true when they have the notice or a
  /// second has passed.
  bool fail(const Failure& failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Looks for the notice of a failure.
  void look();
  /// Tells all others that this rank is at work, unless it did so less than `seconds` ago.
  void heartbeat(double seconds);
  /// Looks for those of others: how many have come since the start.
  uint64_t heartbeats();
  /// Throws a RankFailure; `where` says what the calling rank was doing. Only after failed().
  [[noreturn]] void throw_failure(const std::string& where) const;
  /// Throws the failure that decided if it was one of this rank, as the others were told it.
  void throw_own_failure() const;

  /// The number of a new group, above all that this rank knows.
  int next_group() const { return next_group_.load(); }
  void take_group(int group) { next_group_.store(group + 1); }

 private:
  struct FailureNotice {
    int32_t code = 0;
    std::array<char, 1020> cause{};
  };
  void await_failure_notice();
  void await_heartbeat();
  void note(Failure failure);

  Transport& transport_;
  std::vector<std::string> hosts_;
  std::atomic<int> next_group_{1};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of all below
  FailureNotice incoming_, outgoing_;
  Transport::Handle waiting_ = 0;
  std::byte heartbeat_in_{}, heartbeat_out_{};
  Transport::Handle waiting_for_heartbeat_ = 0;
  std::vector<Transport::Handle> heartbeats_sent_;  // by rank; 0: none is on its way
  double last_heartbeat_ = 0;                       // monotonic seconds
  uint64_t num_heartbeats_ = 0;
  Failure failure_;
  bool is_own_failure_ = false;
};

}  // namespace megalith::comm
