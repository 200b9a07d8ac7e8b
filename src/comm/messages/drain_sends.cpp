// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/drain_sends.h"

#include <chrono>
#include <exception>
#include <thread>

#include "base/clock.h"

namespace megalith::comm {
namespace {

constexpr double kSeconds = 1;

}  // namespace

bool is_over(Transport& transport, Transport::Handle sent) {
  try {
    return transport.test(sent);
  } catch (const std::exception&) {
    return true;
  }
}

void drain_sends(Transport& transport, std::vector<Transport::Handle> sent) {
  const double until = monotonic_seconds() + kSeconds;
  while (true) {
    std::erase_if(sent, [&](Transport::Handle handle) { return is_over(transport, handle); });
    if (sent.empty() || monotonic_seconds() >= until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace megalith::comm
