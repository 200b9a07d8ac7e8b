// SPDX-License-Identifier: Apache-2.0
// Small arrays on their way from the host to a device. A copy is done some time after it was
// queued; what it reads is kept here until then, so that callers may forget theirs at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/device.h"

namespace megalith::device {

class StagedCopies {
 public:
  explicit StagedCopies(Device& device) : device_(device) {}
  /// Waits for the copies.
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// The values as an array of workspace that is freed with this; `capacity` elements of memory, at
  /// least as many as there are. What is queued from now on may read it.
  template <typename T>
  ConstView place(std::span<const T> values, int64_t capacity) {
    return place(std::as_bytes(values), kDTypeOf<T>, std::ssize(values), capacity);
  }
  template <typename T>
  ConstView place(std::span<const T> values) {
    return place(values, std::ssize(values));
  }

 private:
  ConstView place(std::span<const std::byte> bytes, DType dtype, int64_t count, int64_t capacity);
  Device& device_;
  Ticket last_;
  std::vector<std::vector<std::byte>> sources_;
  std::vector<Tensor> tensors_;
};

}  // namespace megalith::device
