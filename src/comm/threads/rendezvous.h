// SPDX-License-Identifier: Apache-2.0
// One call on which ranks meet. Each rank posts its buffers; once all have, the work is a number of
// independent units (one rank's output, or one piece of a reduction), and whoever waits first does
// those that nobody has claimed. So a wait needs the others to have posted, never to be waiting,
// and data goes from source to target in one copy.
//
// A rank that leaves early (an exception) withdraws: it claims every unit that is still free
// without doing it and waits for the copies in progress, after which nobody will touch its buffers
// again.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/memory_mover.h"
#include "comm/operation.h"

namespace megalith::comm {

class Rendezvous {
 public:
  /// Of `places` ranks on the call described by `first` (whose label is copied).
  Rendezvous(int places, const Operation& first);

  // Under the mutex of the group:
  void post(int place, const Operation& operation);
  bool has_posted(int place) const { return present_[static_cast<size_t>(place)]; }
  /// True when `operation` is the same call as the first one posted.
  bool matches(const Operation& operation) const;
  const Operation& first() const { return first_; }
  int first_place() const { return first_place_; }

  // By any rank that has posted:
  int places() const { return static_cast<int>(posts_.size()); }
  bool all_posted() const { return posted_.load(std::memory_order_acquire) == places(); }
  /// Does `preferred`, then every unit that is free, through the stream of `device`
  /// (Operation). True if that completed the last one. Only
  /// after all_posted().
  bool do_units(int preferred, device::Device* device);
  bool done() const { return done_.load(std::memory_order_acquire) == num_units_; }
  void withdraw();

 private:
  bool claim(int unit) {
    return claimed_[static_cast<size_t>(unit)].exchange(true, std::memory_order_acq_rel) == false;
  }
  void run(int unit, MemoryMover& mover) const;
  void gather(int unit, MemoryMover& mover) const;
  void exchange_pieces(int unit, MemoryMover& mover) const;
  void broadcast(int unit, MemoryMover& mover) const;

  std::string label_;
  Operation first_;
  int first_place_ = -1;
  std::vector<Operation> posts_;
  std::vector<bool> present_;
  std::atomic<int> posted_{0};
  int num_units_;
  std::unique_ptr<std::atomic<bool>[]> claimed_;
  std::atomic<int> done_{0};
  std::atomic<int> settled_{0};  // done or withdrawn
};

}  // namespace megalith::comm
