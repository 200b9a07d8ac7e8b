// SPDX-License-Identifier: Apache-2.0
// Collectives and transfers of device memory. One Communicator per rank and group, used by its
// rank's thread only. Every transfer is a start/wait pair: the start returns a Ticket, and until
// that ticket is waited for the sources must not be written and the targets neither read nor
// written. A wait returns once all ranks concerned have *started* the call (none of them has to be
// waiting), so any order of waits is free of deadlock. Exact arithmetic never lets a library add
// floats: sums of floats are made of all_to_all and all_gather in room `parallel`.
//
// Views are contiguous, and memory of the rank's device (set_device; of the host while there is
// none). A start waits for what the device's stream holds already; what is queued after the wait
// sees the result. Host data goes as control messages (control_messages.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/control_messages.h"
#include "device/device.h"

namespace megalith::comm {

/// Which group of a split a rank joins, and its order there (ties by rank).
struct Membership {
  int color = 0;
  int key = 0;
};

class Communicator : public ControlMessages {
 public:
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
  /// Element-wise, in place; i32.
  Ticket start_all_reduce_min(View x, std::string_view label);
  /// Element-wise, in place; i64 (wraps).
  Ticket start_all_reduce_sum(View x, std::string_view label);

  void wait(Ticket ticket) { end(std::move(ticket)); }
  /// Without waiting, moves this process's calls on where the backend does that only while it is
  /// called: a rank that computes for long after a start calls it now and then. Errors are those of
  /// the wait.
  void advance(const Ticket& ticket);

  /// Collective: the group of all ranks r with this rank's color. `of_rank` has size() entries,
  /// equal on all ranks (a layout is a pure function of the rank, and so a trace knows its groups
  /// too).
  std::unique_ptr<Communicator> split(std::span<const Membership> of_rank, std::string_view name);

  /// Collective: messages between the same ranks for one other thread of each, with numbers and a
  /// clock of their own, so that state can be saved while training goes on. One failure ends both.
  /// Calls on them are not recorded. The other thread must have ended before this rank does.
  std::unique_ptr<ControlMessages> for_second_thread(std::string_view name);

 protected:
  using ControlMessages::ControlMessages;
  /// `members`: the ranks of this group in the order of the new one; `rank` this rank's place
  /// there.
  virtual std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank,
                                                   int color, std::string name) = 0;
  /// All ranks of this group, for another thread.
  virtual std::unique_ptr<ControlMessages> make_second(std::shared_ptr<RankState> state,
                                                       std::string name) = 0;

 private:
  /// A call on this rank's device.
  Ticket start_on_device(Operation operation);
};

}  // namespace megalith::comm
