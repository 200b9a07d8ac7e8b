// SPDX-License-Identifier: Apache-2.0
// Calls on one group are numbered, so that those of its ranks find each other.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <tuple>

#include "comm/operation.h"

namespace megalith::comm {

/// Sender and receiver are -1 for the calls of all ranks of a group.
struct CallNumber {
  int sender = -1;
  int receiver = -1;
  int channel = 0;
  uint64_t number = 0;
  friend auto operator<=>(const CallNumber&, const CallNumber&) = default;

  bool is_transfer() const { return sender >= 0; }
  /// Of the two places of a transfer the first is its sender; else a place is a rank.
  int place_of(int rank) const { return is_transfer() ? (rank == sender ? 0 : 1) : rank; }
  int rank_of(int place) const { return is_transfer() ? (place == 0 ? sender : receiver) : place; }
  /// "call 5", "message 3 from 0 to 1 on channel 0"
  std::string text() const;
};

/// Numbers the calls of one rank on one group.
class CallNumbers {
 public:
  CallNumber next(const Operation& operation, int rank);

 private:
  uint64_t next_collective_ = 0;
  std::map<std::tuple<int, int, int>, uint64_t> next_transfer_;
};

}  // namespace megalith::comm
