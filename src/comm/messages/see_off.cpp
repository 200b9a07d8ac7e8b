// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/see_off.h"

#include <chrono>
#include <exception>
#include <thread>

#include "base/clock.h"

namespace megalith::comm {
namespace {

constexpr double kSeconds = 1;

}  // namespace

bool is_over(Wire& wire, Wire::Handle sent) {
  try {
    return wire.test(sent);
  } catch (const std::exception&) {
    return true;
  }
}

void see_off(Wire& wire, std::vector<Wire::Handle> sent) {
  const double until = monotonic_seconds() + kSeconds;
  while (true) {
    std::erase_if(sent, [&](Wire::Handle handle) { return is_over(wire, handle); });
    if (sent.empty() || monotonic_seconds() >= until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace megalith::comm
