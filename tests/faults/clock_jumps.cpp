// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: a wall clock that somebody keeps setting, a day forth, a day back,
// every few looks at it. The monotonic clock is left alone, as clock_settime leaves it.
#include <dlfcn.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <ctime>

namespace {

constexpr time_t kDay = 86400;
constexpr std::array<time_t, 4> kSetTo{0, kDay, 0, -kDay};
constexpr unsigned kLooks = 5;

/// How wrong the clock is at this look.
time_t jump() {
  static std::atomic<unsigned> looks{0};
  return kSetTo[looks++ / kLooks % kSetTo.size()];
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto call =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int status = call(clock, now);
  if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return status;
}

int gettimeofday(timeval* __restrict now, void* __restrict zone) noexcept {
  static const auto call =
      reinterpret_cast<int (*)(timeval*, void*)>(dlsym(RTLD_NEXT, "gettimeofday"));
  const int status = call(now, zone);
  if (status == 0) now->tv_sec += jump();
  return status;
}

time_t time(time_t* where) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (where != nullptr) *where = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
