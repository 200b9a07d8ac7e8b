// SPDX-License-Identifier: Apache-2.0
#include "account/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace megalith::account {
namespace {

TEST(Plan, TracesMarksAndWork) {
  const Plan plan = trace({}, [](device::Device& device) {
    const auto weights = device.arena(device::MemoryClass::weights).allocate(1000);
    const device::NameScope scope(device, "layer");
    const device::KernelScope kernel(device, "product", {42, 10, 20, 0});
    const auto scratch = device.arena(device::MemoryClass::workspace).allocate(64);
  });
  EXPECT_EQ(plan.memory.of(device::MemoryClass::weights), 1024);
  EXPECT_EQ(plan.memory.of(device::MemoryClass::workspace), 64);
  EXPECT_EQ(plan.memory.total, 1088);
  EXPECT_EQ(plan.work.flops, 42);
  ASSERT_EQ(plan.records.size(), 1u);
  EXPECT_EQ(plan.records[0].scope, "layer");
  EXPECT_EQ(to_json(plan.memory)["total"], 1088);
}

TEST(Plan, BytesAreReadable) {
  EXPECT_EQ(bytes_text(512), "512 bytes");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(int64_t{3} << 30), "3.00 GiB");
}

TEST(Plan, ResidentMemoryIsKnown) {
  const Resident resident = resident_memory();
  EXPECT_GT(resident.now, 0);
  EXPECT_GE(resident.peak, resident.now);
}

}  // namespace
}  // namespace megalith::account
