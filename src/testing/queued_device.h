// SPDX-License-Identifier: Apache-2.0
// A device that behaves like an accelerator and runs the cpu's kernels: work is queued and done
// later, by a thread of its own, in memory that the host cannot touch. What is true on it with the
// cpu kind's bits is true on any kind whose kernels are right: code that reads a view on the host
// faults, code that forgets a wait reads rubbish, a buffer that ends too early is told.
#pragma once

#include <chrono>
#include <memory>

#include "device/device.h"

namespace megalith::testing {

struct QueuedDeviceOptions {
  /// How long each copy between host and device lies in the stream before it is done, and each
  /// other piece of work.
  std::chrono::microseconds copy_delay{100};
  std::chrono::microseconds work_delay{0};
};

/// `target` is a cpu's. What goes wrong behind the caller's back is thrown by the next wait:
///   - the source of a copy to the device that changed before the copy was done;
///   - the target of a copy to the host that was written meanwhile (it holds rubbish until then);
///   - an exception of a kernel.
/// A fault that nobody waits for ends the process.
std::unique_ptr<device::Device> make_queued_device(const device::Target& target,
                                                   const QueuedDeviceOptions& options = {});

}  // namespace megalith::testing
