// SPDX-License-Identifier: Apache-2.0
// The owner says that it sleeps and then lets the kernel compare the counter; a notifier raises the
// counter and then looks whether the owner sleeps. In the one order of sequentially consistent
// operations at least one of them sees the other, so no notification is lost.
#include "comm/threads/event_count.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"

namespace megalith::comm {
namespace {

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG,
                 value, timeout, nullptr, 0);
}

}  // namespace

void EventCount::notify() {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) != 0) futex(count_, FUTEX_WAKE, 1, nullptr);
}

void EventCount::wait(uint32_t seen, double until, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (count() != seen) return;
    _mm_pause();
  }
  const double left = until - monotonic_seconds();
  if (left <= 0) return;
  // An hour at most, so that the conversion fits; the caller loops.
  const double seconds = std::min(left, 3600.0);
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(seconds);
  timeout.tv_nsec = static_cast<long>((seconds - static_cast<double>(timeout.tv_sec)) * 1e9);
  asleep_.store(1, std::memory_order_seq_cst);
  // Woken, changed before it slept, interrupted or out of time: the caller looks again in any case.
  futex(count_, FUTEX_WAIT, seen, &timeout);
  asleep_.store(0, std::memory_order_seq_cst);
}

}  // namespace megalith::comm
