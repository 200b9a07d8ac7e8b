// SPDX-License-Identifier: Apache-2.0
// Copies and reductions where the buffers of a call lie: in memory that the host may touch, or on
// devices, through the caller's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/operation.h"
#include "device/device.h"

namespace megalith::comm {

/// On the host: elements [begin, begin + count) of every post's target become their maximum,
/// minimum or sum, combined in rank order.
void reduce_piece(std::span<const Operation> posts, int64_t begin, int64_t count);

class MemoryMover {
 public:
  /// `device`: that of the calling rank; null: host memory.
  explicit MemoryMover(device::Device* device)
      : device_(device != nullptr && !device->is_host_memory() ? device : nullptr) {}

  void copy(std::byte* to, const std::byte* from, int64_t bytes);
  /// reduce_piece, there.
  void reduce(std::span<const Operation> posts, int64_t begin, int64_t count);
  /// Returns when all of it is done, and what the device had in its stream before.
  void wait() {
    if (device_ != nullptr) device_->wait(device_->last());
  }

 private:
  device::Device* device_;
};

}  // namespace megalith::comm
