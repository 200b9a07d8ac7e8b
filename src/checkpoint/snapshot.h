// SPDX-License-Identifier: Apache-2.0
// The copy of the state that a background save writes from. Training stands still while it is
// taken, so it is taken by all threads of the rank, into pages that the system has given before: a
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

/// Used by the rank's own thread; what take() returned is read by any.
class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// Takes memory of class snapshot, unless it has enough, and begins to have it filled with pages
  /// in the background. What was taken before is gone.
  void reserve(device::Device& device, int64_t bytes);
  /// The tensors as they are now, valid until the next call. Their values are copied when it
  /// returns.
  std::vector<TensorContent> take(device::Device& device, std::span<const TensorSource> tensors);

 private:
  void stop_filling();

  device::Allocation memory_;
  std::jthread filling_;
};

}  // namespace megalith::checkpoint
