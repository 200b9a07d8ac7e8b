// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/recorder.h"

namespace megalith::device {

Ticket Device::enqueue(std::unique_ptr<QueuedKernel>) {
  MEGA_CHECK(false, "kernels of a device of kind {} run when they are called", kind_);
}

std::unique_ptr<Device> make_device(const Target& target) {
  if (target.kind == DeviceKind::cpu) return make_cpu_device(target);
  throw UserError("this program runs on the cpu; it has no kernels for {}", target.kind);
}

KernelScope::KernelScope(Device& device, std::string_view name, const Work& work)
    : recorder_(device.recorder()), name_(name), work_(work) {
  if (recorder_ == nullptr) return;
  recorder_->open();
  if (!device.is_trace() && !device.queues_kernels()) begin_ = monotonic_seconds();
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
