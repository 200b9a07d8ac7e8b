// SPDX-License-Identifier: Apache-2.0
#include "comm/call_number.h"

#include <fmt/format.h>

namespace megalith::comm {

std::string CallNumber::text() const {
  if (!is_transfer()) return fmt::format("call {}", number);
  return fmt::format("message {} from {} to {} on channel {}", number, sender, receiver, channel);
}

CallNumber CallNumbers::next(const Operation& operation, int rank) {
  if (operation.kind != OperationKind::transfer) return {.number = next_collective_++};
  const int sender = operation.is_sender ? rank : operation.peer;
  const int receiver = operation.is_sender ? operation.peer : rank;
  const int channel = operation.channel;
  return {sender, receiver, channel, next_transfer_[{sender, receiver, channel}]++};
}

}  // namespace megalith::comm
