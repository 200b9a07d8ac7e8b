// SPDX-License-Identifier: Apache-2.0
// What a rank's thread sleeps on: a counter that any other rank may raise. One per rank, so that a
// rank waits for many things (its peers, the failure of any rank, its deadline) in one place.
// std::atomic::wait has no time limit, hence the futex.
#pragma once

#include <atomic>
#include <cstdint>

namespace megalith::comm {

class alignas(64) EventCount {
 public:
  uint32_t count() const { return count_.load(std::memory_order_seq_cst); }
  /// Any thread. What the caller wrote before is seen by the owner after its wait.
  void notify();
  /// The owner only: returns when count() != seen, at the latest at `until` (monotonic seconds),
  /// and perhaps earlier. Polls `spins` times before it sleeps.
  void wait(uint32_t seen, double until, int spins);

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> asleep_{0};
};

}  // namespace megalith::comm
