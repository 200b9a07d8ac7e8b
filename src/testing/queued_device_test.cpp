// SPDX-License-Identifier: Apache-2.0
// The queued device catches what an accelerator would not forgive.
#include "testing/queued_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/norm/layer_norm.h"
#include "testing/hidden_memory.h"

namespace megalith::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Ne;
using namespace std::chrono_literals;

class QueuedDevice : public ::testing::Test {
 protected:
  device::Tensor tensor(int64_t n, DType dtype = DType::f32) {
    return device_->arena(device::MemoryClass::workspace).tensor(dtype, Shape{n});
  }
  std::unique_ptr<device::Device> device_ =
      make_queued_device({.isa = device::detect_isa(), .num_threads = 2}, {.copy_delay = 20ms});
};
using QueuedDeviceDeathTest = QueuedDevice;

/// What an argument struct leaves between its fields can be a part of an address.
TEST_F(QueuedDevice, NumbersBesideRubbishAreNoAddresses) {
  struct {
    float number = 0.1f;
    std::array<uint8_t, 4> behind = {};
    float other = 1e-5f;
    kernels::NormKind kind = kernels::NormKind::layer;
    std::array<uint8_t, 3> behind_kind = {};
    const std::byte* address = nullptr;
  } arguments;
  const device::Tensor x = tensor(1000);
  arguments.address = x.view.data();
  std::array<uint8_t, 8> rubbish;
  std::memcpy(rubbish.data(), &arguments.address, sizeof(rubbish));
  std::copy(rubbish.begin() + 4, rubbish.end(), arguments.behind.begin());
  std::copy(rubbish.begin() + 5, rubbish.end(), arguments.behind_kind.begin());
  make_reachable(std::as_writable_bytes(std::span(&arguments, 1)));
  EXPECT_EQ(arguments.number, 0.1f);
  EXPECT_EQ(arguments.other, 1e-5f);
  EXPECT_EQ(arguments.kind, kernels::NormKind::layer);
  EXPECT_EQ(arguments.address, reachable(x.view.data()));
  EXPECT_GE(rubbish[4], 0x80);
  EXPECT_EQ((reachable(x.view.data()) - x.view.data()) % (int64_t{1} << 32), 0);
}

TEST_F(QueuedDevice, RunsKernelsOfTheCpuInOrder) {
  kernels::Exec exec(*device_);
  const device::Tensor x = tensor(1000);
  std::vector<float> host(1000, 3);
  device_->copy_to_device(x, host.data());
  kernels::scale(exec, x, 2.0f);
  kernels::add(exec, x.view, x.view, x.view);
  std::vector<float> back(1000);
  device_->wait(device_->copy_to_host(back.data(), x.view));
  EXPECT_THAT(back, Each(12.0f));
}

TEST_F(QueuedDevice, NothingIsDoneBeforeItIsWaitedFor) {
  const device::Tensor x = tensor(100);
  device_->fill_zero(x);
  std::vector<float> back(100);
  const device::Ticket ticket = device_->copy_to_host(back.data(), x.view);
  EXPECT_THAT(back, Each(Ne(0.0f)));
  device_->wait(ticket);
  EXPECT_THAT(back, Each(0.0f));
}

TEST_F(QueuedDeviceDeathTest, AHostThatTouchesAViewFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const device::Tensor x = tensor(16);
  device_->wait(device_->fill_zero(x));
  EXPECT_DEATH({ *x.view.as<float>() = 1; }, "");
  EXPECT_DEATH({ std::exit(*x.view.as<float>() == 0 ? 0 : 1); }, "");
}

TEST_F(QueuedDevice, ASourceThatEndsEarlyIsTold) {
  const device::Tensor x = tensor(100);
  std::vector<float> host(100, 3);
  const device::Ticket ticket = device_->copy_to_device(x, host.data());
  host[50] = 4;
  try {
    device_->wait(ticket);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("changed before its ticket"));
  }
}

TEST_F(QueuedDevice, ATargetWrittenEarlyIsTold) {
  const device::Tensor x = tensor(100);
  device_->fill_zero(x);
  std::vector<float> host(100);
  const device::Ticket ticket = device_->copy_to_host(host.data(), x.view);
  host[50] = 4;
  EXPECT_THROW(device_->wait(ticket), InternalError);
}

TEST_F(QueuedDevice, MemoryOfTheHostIsNotItsOwn) {
  std::vector<float> host(100);
  EXPECT_THROW(
      device_->fill_zero(View(reinterpret_cast<std::byte*>(host.data()), DType::f32, Shape{100})),
      InternalError);
}

// The stream is behind, and the caller's lists are gone when it comes to the kernel.
TEST_F(QueuedDevice, ListsOnTheHostAreReadBeforeTheCallReturns) {
  kernels::Exec exec(*device_);
  constexpr int64_t kTokens = 6, kSize = 4;
  std::vector<float> host(kTokens * kSize);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 7) - 3;
  const device::Tensor x = tensor(kTokens * kSize), y = tensor(kTokens * kSize);
  const auto heads_of = [](const device::Tensor& t) {
    return kernels::heads(t.view.reshape({kTokens, kSize}), 1, kSize);
  };
  const auto attend = [&](bool forgets) {
    std::vector<int32_t> cu_seqlens{0, 2, 6};
    device_->copy_to_device(x, host.data());  // slow
    kernels::AttentionSequences sequences;
    sequences.cu_seqlens = cu_seqlens;
    kernels::attention_forward(exec, {.sequences = sequences,
                                      .scale = 1,
                                      .q_TND = heads_of(x),
                                      .k_TKD = heads_of(x),
                                      .v_TKD = heads_of(x),
                                      .y_TND = heads_of(y),
                                      .lse_NT = {},
                                      .probabilities = {},
                                      .dropout = {}});
    if (forgets) cu_seqlens = {0, 5, 6};
    std::vector<float> back(host.size());
    device_->wait(device_->copy_to_host(back.data(), y.view));
    return back;
  };
  EXPECT_EQ(attend(true), attend(false));
}

TEST_F(QueuedDevice, AKernelsFaultIsThrownByTheWait) {
  kernels::Exec exec(*device_);
  const device::Tensor table = tensor(4), y = tensor(2), position = tensor(1, DType::i32);
  const std::vector<int32_t> beyond{7};
  device_->wait(device_->copy_to_device(position, beyond.data()));
  kernels::embedding_add_positions(
      exec, {position.view, table.view.reshape({2, 2}), y.view.reshape({1, 2})});
  EXPECT_THROW(device_->wait(device_->last()), InternalError);
}

TEST_F(QueuedDeviceDeathTest, AFaultThatNobodyWaitsForEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::vector<float> host(100, 3);
        const auto device = make_queued_device({.isa = device::detect_isa()}, {.copy_delay = 20ms});
        const device::Tensor x =
            device->arena(device::MemoryClass::workspace).tensor(DType::f32, Shape{100});
        device->copy_to_device(x, host.data());
        host[0] = 1;
      },
      "changed before its ticket");
}

}  // namespace
}  // namespace megalith::testing
