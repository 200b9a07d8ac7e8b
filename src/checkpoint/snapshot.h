// SPDX-License-Identifier: Apache-2.0
// The copy of the state that a background save writes from. Training stands still while it is
// taken, so all threads of the rank take it, into pages that the system has already provided: a
// first touch costs ten times a copy, and much more where a virtual machine gets its memory late.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "device/device.h"

namespace megalith::checkpoint {

/// A logical tensor to save, or the piece of it that this rank writes.
struct TensorSource {
  std::string name;
  ConstView view;               // contiguous, on the device
  std::optional<Cut> cut = {};  // absent: this is all of it
};

/// Used by the rank's own thread; the result of take() may be read by any thread.
class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// Takes memory of class snapshot, unless there is enough, and starts touching its pages in the
  /// background. An earlier snapshot is gone.
  void reserve(device::Device& device, int64_t bytes);
  /// The tensors as they are now, valid until the next call; their values have been copied when it
  /// returns. Local.
  std::vector<TensorContent> take(device::Device& device, std::span<const TensorSource> tensors);

 private:
  void stop_filling();

  device::Allocation memory_;
  std::jthread filling_;
};

}  // namespace megalith::checkpoint
