// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"
#include "device/recorder.h"
#include "device/staged_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace megalith::device {
namespace {

TEST(Arena, RangesAreAlignedAndDisjoint) {
  auto device = make_cpu_device(1);
  Arena& arena = device->arena(MemoryClass::workspace);
  const Allocation a = arena.allocate(1), b = arena.allocate(100), empty = arena.allocate(0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % kAlignment, 0u);
  EXPECT_EQ(b.data() - a.data(), 64);
  EXPECT_EQ(arena.in_use(), 64 + 128);
  EXPECT_EQ(empty.bytes(), 0);
}

TEST(Arena, FirstFitReusesTheLowestHole) {
  auto device = make_cpu_device(1);
  Arena& arena = device->arena(MemoryClass::activations);
  Allocation a = arena.allocate(128), b = arena.allocate(64), c = arena.allocate(256),
             d = arena.allocate(64);
  std::byte* const base = a.data();
  a.release();
  c.release();
  const Allocation e = arena.allocate(192);  // does not fit the first hole
  EXPECT_EQ(e.data() - base, 128 + 64);
  const Allocation f = arena.allocate(64);
  EXPECT_EQ(f.data(), base);
  EXPECT_EQ(arena.high_water(), 512);
}

TEST(Arena, FreedNeighboursMergeAndTheEndShrinks) {
  auto device = make_cpu_device(1);
  Arena& arena = device->arena(MemoryClass::workspace);
  {
    Allocation a = arena.allocate(64), b = arena.allocate(64), c = arena.allocate(64);
    b.release();
    a.release();
    const Allocation both = arena.allocate(128);
    EXPECT_EQ(both.data() + 128, c.data());
  }
  EXPECT_EQ(arena.in_use(), 0);
  EXPECT_EQ(arena.high_water(), 192);
  const Allocation again = arena.allocate(192);
  EXPECT_EQ(arena.high_water(), 192);
}

// The same sequence of calls leaves the same marks with and without memory.
TEST(Arena, TraceCountsWhatTheCpuAllocates) {
  auto cpu = make_cpu_device(1);
  auto trace = make_trace_device(cpu->target());
  std::mt19937 random(7);
  std::vector<Allocation> on_cpu, on_trace;
  for (int i = 0; i < 2000; ++i) {
    if (on_cpu.empty() || random() % 3 != 0) {
      const int64_t bytes = random() % 5000;
      on_cpu.push_back(cpu->arena(MemoryClass::workspace).allocate(bytes));
      on_trace.push_back(trace->arena(MemoryClass::workspace).allocate(bytes));
    } else {
      const size_t which = random() % on_cpu.size();
      on_cpu.erase(on_cpu.begin() + static_cast<ptrdiff_t>(which));
      on_trace.erase(on_trace.begin() + static_cast<ptrdiff_t>(which));
    }
    ASSERT_EQ(cpu->arena(MemoryClass::workspace).high_water(),
              trace->arena(MemoryClass::workspace).high_water());
  }
  EXPECT_EQ(cpu->total().peak, trace->total().peak);
}

TEST(Arena, TotalIsThePeakOfTheSum) {
  auto device = make_trace_device({});
  { const Allocation a = device->arena(MemoryClass::weights).allocate(640); }
  { const Allocation b = device->arena(MemoryClass::gradients).allocate(320); }
  EXPECT_EQ(device->total().peak, 640);
  EXPECT_EQ(device->total().in_use, 0);
}

TEST(Arena, ExhaustionNamesClassAndBytes) {
  auto device = make_cpu_device(1);
  try {
    const Allocation a = device->arena(MemoryClass::optimizer).allocate(int64_t{1} << 60);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos);
  }
}

// Their product with the bytes of an element, or with the alignment, would be a small number.
TEST(Arena, SizesBeyondAllCountingAreRefused) {
  auto device = make_cpu_device(1);
  Arena& arena = device->arena(MemoryClass::workspace);
  EXPECT_THROW(arena.tensor(DType::f32, Shape{(int64_t{1} << 62) + 1}), InternalError);
  EXPECT_THROW(arena.allocate(std::numeric_limits<int64_t>::max()), SystemError);
  EXPECT_EQ(arena.in_use(), 0);
}

TEST(Device, CopiesKeepRowStrides) {
  auto device = make_cpu_device(1);
  const Tensor tensor = device->arena(MemoryClass::workspace).tensor(DType::f32, Shape{4, 6});
  device->fill_zero(tensor);
  const std::vector<float> block{1, 2, 3, 4, 5, 6};
  device->copy_to_device(tensor.view.rows(1, 3).columns(2, 2), block.data());
  std::vector<float> back(24);
  device->wait(device->copy_to_host(back.data(), tensor.view));
  EXPECT_EQ(back, (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0,
                                      0, 0, 3, 4, 0, 0, 0, 0, 5, 6, 0, 0}));
  const Tensor other = device->arena(MemoryClass::workspace).tensor(DType::f32, Shape{3, 2});
  device->copy(other, tensor.view.rows(1, 3).columns(2, 2));
  std::vector<float> copied(6);
  device->wait(device->copy_to_host(copied.data(), other.view));
  EXPECT_EQ(copied, block);
}

TEST(Device, ATargetGivesItsKind) {
  EXPECT_EQ(make_device({.isa = detect_isa()})->kind(), DeviceKind::cpu);
  EXPECT_THROW(make_device({.kind = DeviceKind::cuda}), UserError);
}

TEST(StagedCopies, KeepWhatIsOnItsWay) {
  const auto device = make_cpu_device(1);
  {
    StagedCopies arrays(*device);
    const ConstView x = arrays.place<int32_t>(std::vector<int32_t>{1, 2, 3}, 5);
    EXPECT_EQ(x.num_elements(), 3);
    EXPECT_EQ(x.as<int32_t>()[2], 3);
    EXPECT_EQ(device->arena(MemoryClass::workspace).in_use(), kAlignment);
  }
  EXPECT_EQ(device->arena(MemoryClass::workspace).in_use(), 0);
}

// As many as together would have more addresses than there are, had each those of a process.
TEST(Device, RanksOfAProcessShareItsAddresses) {
  const int64_t each = 2 * memory_bytes() * kNumMemoryClasses;
  const auto ranks = static_cast<int>((int64_t{1} << 47) / each + 1);
  std::vector<std::unique_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(make_cpu_device(Target{.isa = detect_isa(), .ranks_here = ranks}));
    EXPECT_NO_THROW(devices.back()->arena(MemoryClass::workspace).allocate(int64_t{1} << 20));
  }
}

TEST(Recorder, SumsByNameAndScope) {
  auto device = make_trace_device({});
  Recorder recorder;
  device->set_recorder(&recorder);
  for (int i = 0; i < 3; ++i) {
    const NameScope layer(*device, "layers.0");
    const KernelScope kernel(*device, "norm", {10, 4, 4, 0});
  }
  { const KernelScope kernel(*device, "norm", {1, 0, 0, 0}); }
  ASSERT_EQ(recorder.records().size(), 2u);
  EXPECT_EQ(recorder.records()[0].scope, "layers.0");
  EXPECT_EQ(recorder.records()[0].calls, 3);
  EXPECT_EQ(recorder.total().flops, 31);
  EXPECT_EQ(recorder.records()[0].seconds, 0);
}

TEST(Target, NamesAreStable) {
  EXPECT_EQ(name_of(Isa::avx512_bf16), "avx512_bf16");
  EXPECT_GE(detect_isa(), Isa::avx2);
  EXPECT_FALSE(cpu_name().empty());
}

}  // namespace
}  // namespace megalith::device
