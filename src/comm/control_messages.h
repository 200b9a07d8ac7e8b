// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other: small data in host memory, barriers, heartbeats, the failure of
// one. Never on a device's stream: bulk data of the model goes by Communicator. One object per rank
// and group, used by one thread (for heartbeats and abort: by any).
//
// Calls on one group, those of a Communicator among them, are numbered. Kind, dtype, count and
// label of call number k are compared across its ranks; a difference ends all ranks with an error
// naming both. Each wait has a deadline, counted from the last heartbeat of any rank. When one
// rank fails, all others get a RankFailure naming it, where it was and the first cause in their
// next call.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/operation.h"
#include "comm/rank_state.h"

namespace megalith::comm {

/// A call between its start and its wait. The destructor of one never waited for withdraws the
/// buffers from all peers: safe while an exception unwinds, provided the ticket is destroyed before
/// the buffers are (declare it after them); in normal flow it is an error that ends all ranks.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
  /// See Communicator::advance.
  virtual void advance() {}
};

class [[nodiscard]] Ticket {
 public:
  /// Nothing to wait for.
  Ticket() = default;
  explicit Ticket(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  Ticket(Ticket&&) = default;
  Ticket& operator=(Ticket&&) = default;
  bool empty() const { return pending_ == nullptr; }

 private:
  friend class ControlMessages;
  std::unique_ptr<Pending> pending_;
  OperationKind kind_ = OperationKind::barrier;
};

class ControlMessages {
 public:
  virtual ~ControlMessages() = default;
  ControlMessages(const ControlMessages&) = delete;
  ControlMessages& operator=(const ControlMessages&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "world", "tensor", ...: for messages.
  const std::string& name() const { return name_; }
  const RankState& state() const { return *state_; }
  void set_deadline(double seconds) { state_->deadline_seconds = seconds; }
  /// From now on views are memory of this device, and calls are recorded where it records
  /// ("all_gather" with its wire bytes when started, "wait_all_gather" with the seconds a real rank
  /// waited). Null: host memory, recorded nowhere.
  void set_device(device::Device* device) { state_->device = device; }
  void set_step(int64_t step) { state_->step = step; }

  /// Returns when all ranks have called it.
  void barrier(std::string_view label);

  /// Data of any length per rank, in rank order, on every rank. Not recorded. Under the trace kind
  /// this rank's data stands for every rank's.
  virtual std::vector<std::string> exchange(std::string_view mine, std::string_view label);
  /// The same for numbers, joined in rank order.
  template <typename T>
  std::vector<T> exchange_values(std::span<const T> mine, std::string_view label) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all;
    for (const std::string& bytes :
         exchange({reinterpret_cast<const char*>(mine.data()), mine.size_bytes()}, label)) {
      const size_t old = all.size();
      all.resize(old + bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(all.data() + old, bytes.data(), bytes.size());
    }
    return all;
  }
  /// The sum over the ranks.
  int64_t sum(int64_t mine, std::string_view label);
  /// Each element becomes the largest of the ranks' (Communicator::start_all_reduce_max).
  void maximum(std::span<double> values, std::string_view label);
  /// Bytes from one rank to another, which must ask for as many.
  void send(int peer, std::span<const std::byte> bytes, std::string_view label);
  void receive(int peer, std::span<std::byte> bytes, std::string_view label);

  /// This rank is at work on something long that only it does while others wait for it (a check of
  /// files, a plan, a text): every wait of every rank has its whole deadline again. To be called
  /// between pieces of that work, as often as one likes, from any thread. Local.
  virtual void heartbeat() = 0;

  /// Ends every rank of the world: their next or present call throws a RankFailure naming this rank
  /// and cause. Returns; the caller throws its own error.
  virtual void abort(const std::string& cause) = 0;

 protected:
  ControlMessages(int rank, int size, std::string name, std::shared_ptr<RankState> state);
  /// Queues a checked operation.
  virtual Ticket start(const Operation& operation) = 0;
  Ticket record_and_start(const Operation& operation);
  Ticket start_unrecorded(const Operation& operation);
  void end(Ticket ticket);
  void check_peer(int peer) const;
  static Pending* pending_of(const Ticket& ticket) { return ticket.pending_.get(); }
  /// The call of an only rank: what it sends to itself.
  static Ticket copy_to_self(const Operation& operation);
  const std::shared_ptr<RankState>& shared_state() const { return state_; }

 private:
  device::Recorder* recorder() const;
  int rank_;
  int size_;
  std::string name_;
  std::shared_ptr<RankState> state_;
};

/// Ends all ranks with a UserError unless `value` is the same on all; the message names `what` and
/// two ranks that differ. Collective.
void require_same(ControlMessages& comm, std::string_view what, std::string_view value);

}  // namespace megalith::comm
