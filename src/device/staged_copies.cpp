// SPDX-License-Identifier: Apache-2.0
#include "device/staged_copies.h"

#include "base/check.h"

namespace megalith::device {

StagedCopies::~StagedCopies() {
  try {
    device_.wait(last_);
  } catch (...) {
    // Of the device: whoever waits for what used the arrays is told, too.
  }
}

ConstView StagedCopies::place(std::span<const std::byte> bytes, DType dtype, int64_t count,
                              int64_t capacity) {
  MEGA_CHECK_LE(count, capacity);
  tensors_.push_back(device_.arena(MemoryClass::workspace).tensor(dtype, Shape{capacity}));
  const View view = tensors_.back().view.rows(0, count);
  if (device_.is_trace()) return view;
  const std::byte* source = bytes.data();
  if (!device_.is_host_memory()) {  // there the copy is done when the call returns
    sources_.emplace_back(bytes.begin(), bytes.end());
    source = sources_.back().data();
  }
  last_ = device_.copy_to_device(view, source);
  return view;
}

}  // namespace megalith::device
