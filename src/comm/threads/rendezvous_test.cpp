// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/rendezvous.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <span>
#include <thread>

#include "base/error.h"

namespace megalith::comm {
namespace {

/// A device whose stream a kernel's error has ended: it throws what the next call finds.
class FailedDevice final : public device::Device {
 public:
  FailedDevice() : Device(device::DeviceKind::queued, {}) {}
  device::Ticket copy_to_device(View, const void*) override { return {}; }
  device::Ticket copy_to_host(void*, ConstView) override { return {}; }
  device::Ticket copy(View, ConstView) override { throw SystemError("the kernel failed"); }
  device::Ticket fill_zero(View) override { return {}; }
  void wait(device::Ticket) override {}
  device::Ticket last() const override { return {}; }
};

// Whoever leaves waits for all copies that were begun: one that failed is over.
TEST(Rendezvous, ACopyThatThrowsLeavesNothingToWaitFor) {
  struct Call {
    float parts[2] = {1, 2}, all[2][2] = {};
    std::unique_ptr<Rendezvous> place;
  };
  const auto call = std::make_shared<Call>();
  for (int rank = 0; rank < 2; ++rank) {
    const Operation operation = gather_of(
        ConstView(std::as_bytes(std::span(&call->parts[rank], 1)).data(), DType::f32, Shape{1}),
        View(std::as_writable_bytes(std::span(call->all[rank])).data(), DType::f32, Shape{2}), rank,
        2, "weights");
    if (call->place == nullptr) call->place = std::make_unique<Rendezvous>(2, operation);
    call->place->post(rank, operation);
  }
  FailedDevice device;
  EXPECT_THROW(call->place->do_units(0, &device), SystemError);
  std::packaged_task<void()> leave([call] { call->place->withdraw(); });
  std::future<void> left = leave.get_future();
  std::thread(std::move(leave)).detach();  // where it waits for ever, this test does not
  EXPECT_EQ(left.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(call->place->done());
}

}  // namespace
}  // namespace megalith::comm
