// SPDX-License-Identifier: Apache-2.0
// A snapshot holds the values of the moment it was taken, of tensors of any size and alignment, by
// any number of threads, while its pages are still being filled; and it takes memory once.
#include "checkpoint/snapshot.h"

#include <gtest/gtest.h>

#include <cstring>

namespace megalith::checkpoint {
namespace {

std::vector<std::byte> bytes_of(const TensorContent& tensor) {
  std::vector<std::byte> all;
  tensor.write(
      [&](std::span<const std::byte> part) { all.insert(all.end(), part.begin(), part.end()); });
  return all;
}

TEST(Snapshot, holds_every_byte_of_the_moment) {
  std::vector<std::byte> memory(1'000'000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 37 + (i >> 9));
  std::vector<TensorSource> sources;
  size_t at = 0;
  for (const int64_t size : {0, 1, 63, 64, 65, 4095, 4097, 700'001, 3, 128, 100'000}) {
    at += 5;  // gaps, and every alignment
    sources.push_back(
        {std::to_string(sources.size()), ConstView(memory.data() + at, DType::u8, Shape{size})});
    at += static_cast<size_t>(size);
  }
  ASSERT_LE(at, memory.size());
  const std::vector<std::byte> before = memory;
  for (const int threads : {1, 2, 3}) {
    const auto device = device::make_cpu_device(threads);
    Snapshot snapshot;
    const auto contents = snapshot.take(*device, sources);
    std::ranges::fill(memory, std::byte{0});
    ASSERT_EQ(contents.size(), sources.size());
    for (size_t i = 0; i < contents.size(); ++i) {
      const auto offset = sources[i].view.data() - memory.data();
      const std::vector<std::byte> expected(before.begin() + offset,
                                            before.begin() + offset + sources[i].view.bytes());
      EXPECT_EQ(contents[i].name, sources[i].name);
      EXPECT_TRUE(bytes_of(contents[i]) == expected) << i << " on " << threads << " threads";
    }
    memory = before;
  }
}

TEST(Snapshot, memory_is_taken_once_and_survives_its_filling) {
  const auto device = device::make_cpu_device(2);
  const device::Arena& arena = device->arena(device::MemoryClass::snapshot);
  const std::vector<float> values(2'000'000, 1.5F);
  const TensorSource source{"w", ConstView(reinterpret_cast<const std::byte*>(values.data()),
                                           DType::f32, Shape{2'000'000})};
  {
    Snapshot snapshot;
    snapshot.reserve(*device, 64 << 20);
    for (int i = 0; i < 3; ++i) {
      const auto contents = snapshot.take(*device, {&source, 1});
      EXPECT_EQ(std::memcmp(bytes_of(contents[0]).data(), values.data(), 8'000'000), 0);
      EXPECT_EQ(arena.in_use(), 64 << 20);
    }
    snapshot.reserve(*device, 65 << 20);
    EXPECT_EQ(arena.in_use(), 65 << 20);
    EXPECT_EQ(arena.high_water(), 65 << 20) << "never two of them";
  }
  EXPECT_EQ(arena.in_use(), 0);
}

}  // namespace
}  // namespace megalith::checkpoint
