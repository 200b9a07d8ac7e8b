// SPDX-License-Identifier: Apache-2.0
// A thread that cannot be made.
#include <pthread.h>

#include <cerrno>

#include "fault_state.h"

using namespace megalith::faults;

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  static const auto call =
      real<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  {
    std::unique_lock lock(state().mutex);
    if (fails(lock, Call::thread, "")) return errno;
  }
  return call(thread, attributes, body, argument);
}
