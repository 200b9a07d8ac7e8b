// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "base/clock.h"
#include "device/recorder.h"

namespace megalith::device {

KernelScope::KernelScope(Device& device, std::string_view name, const Work& work)
    : recorder_(device.recorder()), name_(name), work_(work) {
  if (recorder_ == nullptr) return;
  recorder_->open();
  if (!device.is_trace()) begin_ = monotonic_seconds();
}

KernelScope::~KernelScope() {
  if (recorder_ == nullptr) return;
  recorder_->close(name_, work_, begin_, begin_ == 0 ? 0 : monotonic_seconds() - begin_);
}

NameScope::NameScope(Device& device, std::string_view name) : recorder_(device.recorder()) {
  if (recorder_ != nullptr) recorder_->push_scope(name);
}

NameScope::~NameScope() {
  if (recorder_ != nullptr) recorder_->pop_scope();
}

}  // namespace megalith::device
