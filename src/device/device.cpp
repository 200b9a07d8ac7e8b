// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "base/clock.h"

namespace megalith::device {

KernelScope::KernelScope(Device& device, std::string_view name, const Work& work)
    : recorder_(device.recorder()), name_(name), work_(work) {
  if (recorder_ != nullptr && !device.is_trace()) begin_ = monotonic_seconds();
}

KernelScope::~KernelScope() {
  if (recorder_ == nullptr) return;
  recorder_->add(name_, work_, begin_ == 0 ? 0 : monotonic_seconds() - begin_);
}

}  // namespace megalith::device
