// SPDX-License-Identifier: Apache-2.0
// The trace kind: the arenas count, nothing is stored, nothing is computed.
#include "base/check.h"
#include "device/device.h"

namespace megalith::device {
namespace {

class TraceDevice final : public Device {
 public:
  explicit TraceDevice(const Target& target) : Device(DeviceKind::trace, target) {
    for (int i = 0; i < kNumMemoryClasses; ++i) {
      arenas_[static_cast<size_t>(i)] =
          std::make_unique<Arena>(static_cast<MemoryClass>(i), reserve_nothing(i), &total_);
    }
  }
  Ticket copy_to_device(View, const void*) override { return {}; }
  Ticket copy_to_host(void*, ConstView) override {
    MEGA_CHECK(false, "the trace kind has no values to read");
  }
  Ticket copy(View dst, ConstView src) override {
    MEGA_CHECK_EQ(dst.bytes(), src.bytes());
    return {};
  }
  Ticket fill_zero(View) override { return {}; }
  void wait(Ticket) override {}
  Ticket last() const override { return {}; }
};

}  // namespace

std::unique_ptr<Device> make_trace_device(const Target& target) {
  return std::make_unique<TraceDevice>(target);
}

}  // namespace megalith::device
