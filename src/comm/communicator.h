// SPDX-License-Identifier: Apache-2.0
// Ranks that talk. One Communicator per rank and group, used by its rank's thread only. Every
// transfer is a start/wait pair: the start returns a Ticket, and until that ticket is waited for
// the sources must not be written and the targets neither read nor written. A wait returns once all
// ranks concerned have *started* the call (none of them has to be waiting), so any order of waits
// is free of deadlock. Exact arithmetic never lets a library add floats: sums of floats are made of
// all_to_all and all_gather in room `parallel`.
//
// Calls on one group are numbered. Kind, dtype, count and label of call number k are compared
// across its ranks; a difference ends all ranks with an error naming both. Each wait has a
// deadline, counted from the last sign of life of any rank. When one rank fails, all others get a
// RankFailure naming it, where it was and the first cause in their next call.
//
// Views are contiguous. They may be device memory; `threads` and `self` on a cpu device read host
// memory, the traced one follows no pointer.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/operation.h"
#include "comm/rank_state.h"
#include "device/device.h"

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
  friend class Communicator;
  std::unique_ptr<Pending> pending_;
  OperationKind kind_ = OperationKind::barrier;
};

/// Which group of a split a rank joins, and its order there (ties by rank).
struct Membership {
  int color = 0;
  int key = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "world", "tensor", ...: for messages.
  const std::string& name() const { return name_; }
  const RankState& state() const { return *state_; }
  void set_deadline(double seconds) { state_->deadline_seconds = seconds; }
  /// From now on calls are recorded where this device records ("all_gather" with its wire bytes
  /// when started, "wait_all_gather" with the seconds a real rank waited). Null: nowhere.
  void set_device(device::Device* device) { state_->device = device; }
  void set_step(int64_t step) { state_->step = step; }

  /// One message to or from `peer`. Sends and receives of one (sender, receiver, channel) match in
  /// order; different channels are independent.
  Ticket start_send(int peer, ConstView x, std::string_view label, int channel = 0);
  Ticket start_receive(int peer, View x, std::string_view label, int channel = 0);

  /// all = the ranks' parts in order. `all` is [rows, ...], `local` this rank's part of it; `local`
  /// may be that very part of `all`.
  Ticket start_all_gather(ConstView local, View all, std::string_view label);
  /// Part r of x goes to rank r. x is [rows, ...]; y has size() x (this rank's part of rows) rows:
  /// row block r came from rank r. No overlap of x and y.
  Ticket start_all_to_all(ConstView x, View y, std::string_view label);
  /// x of `root` overwrites x of all others.
  Ticket start_broadcast(View x, int root, std::string_view label);
  /// Element-wise, in place; f32, f64, i64. Independent of order: NaN wins and becomes the default
  /// NaN, +0 is above -0.
  Ticket start_all_reduce_max(View x, std::string_view label);
  /// Element-wise, in place; i64 (wraps), and f32 for `fast` numerics alone (order is the
  /// backend's).
  Ticket start_all_reduce_sum(View x, std::string_view label);

  void wait(Ticket ticket);
  /// Without waiting, moves this process's calls on where the backend does that only while it is
  /// called: a rank that computes for long after a start calls it now and then. Errors are those of
  /// the wait.
  void advance(const Ticket& ticket) {
    if (ticket.pending_ != nullptr) ticket.pending_->advance();
  }

  /// Returns when all ranks have called it.
  void barrier(std::string_view label);

  /// Small host data of any length per rank, in rank order, on every rank. Blocks; not recorded.
  /// Under the trace kind this rank's data stands for every rank's.
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

  /// Collective: the group of all ranks r with this rank's color. `of_rank` has size() entries,
  /// equal on all ranks (a layout is a pure function of the rank, and so a trace knows its groups
  /// too).
  std::unique_ptr<Communicator> split(std::span<const Membership> of_rank, std::string_view name);

  /// Collective: a communicator of the same ranks for one other thread of each, with numbers and a
  /// clock of its own, so that state can be saved while training goes on. One failure ends both.
  /// Calls on it are not recorded. The other thread must have ended before this rank does.
  std::unique_ptr<Communicator> for_second_thread(std::string_view name);

  /// This rank is at work on something long that only it does while others wait for it (a check of
  /// files, a plan, a text): every wait of every rank has its whole deadline again. To be called
  /// between pieces of that work, as often as one likes, from any thread. Local.
  virtual void sign_of_life() = 0;

  /// Ends every rank of the world: their next or present call throws a RankFailure naming this rank
  /// and cause. Returns; the caller throws its own error.
  virtual void abort(const std::string& cause) = 0;

 protected:
  Communicator(int rank, int size, std::string name, std::shared_ptr<RankState> state);
  /// Queues a checked operation.
  virtual Ticket start(const Operation& operation) = 0;
  /// The call of an only rank: what it sends to itself.
  static Ticket copy_to_self(const Operation& operation);
  /// `members`: the ranks of this group in the order of the new one; `rank` this rank's place
  /// there.
  virtual std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank,
                                                   int color, std::string name) = 0;
  /// All ranks of this group, for another thread.
  virtual std::unique_ptr<Communicator> make_second(std::shared_ptr<RankState> state,
                                                    std::string name) = 0;
  const std::shared_ptr<RankState>& shared_state() const { return state_; }

 private:
  Ticket record_and_start(const Operation& operation);
  Ticket start_unrecorded(const Operation& operation);
  device::Recorder* recorder() const;
  int rank_;
  int size_;
  std::string name_;
  std::shared_ptr<RankState> state_;
};

/// Ends all ranks with a UserError unless `value` is the same on all; the message names `what` and
/// two ranks that differ. Collective.
void require_same(Communicator& comm, std::string_view what, std::string_view value);

}  // namespace megalith::comm
