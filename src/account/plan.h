// SPDX-License-Identifier: Apache-2.0
// What a piece of work takes, found by running it on the trace kind: the same code, the same
// allocator, no memory and no arithmetic. The plan is the allocation.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/function_ref.h"
#include "device/device.h"
#include "device/recorder.h"

namespace megalith::account {

/// Bytes by class: the high-water mark of each arena; `total` is the peak of their sum.
struct MemoryByClass {
  std::array<int64_t, device::kNumMemoryClasses> bytes{};
  int64_t total = 0;
  int64_t of(device::MemoryClass memory_class) const {
    return bytes[static_cast<size_t>(memory_class)];
  }
  friend bool operator==(const MemoryByClass&, const MemoryByClass&) = default;
};
/// The marks of a device so far.
MemoryByClass memory_of(const device::Device& device);

struct Plan {
  MemoryByClass memory;
  device::Work work;                    // of everything that ran
  std::vector<device::Record> records;  // by kernel and place in the model
};

/// Runs `body` on a trace device for `target`.
Plan trace(const device::Target& target, FunctionRef<void(device::Device&)> body);

/// {"weights", "gradients", "optimizer", "activations", "workspace", "snapshot", "total"}
nlohmann::ordered_json to_json(const MemoryByClass& memory);

/// "1.25 GiB", "312 KiB"
std::string bytes_text(int64_t bytes);

/// Bytes of this process in memory now, and their peak since it began (Linux: VmRSS, VmHWM).
struct Resident {
  int64_t now = 0;
  int64_t peak = 0;
};
Resident resident_memory();

}  // namespace megalith::account
