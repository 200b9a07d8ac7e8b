// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/widen.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr Format kFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1};
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

/// A weight whose tiles begin where no vector is aligned. Every code occurs; scales are finite, of
/// either sign, and denormals among them.
struct Tiled {
  Tiled(Format stored, const Shape& of) : format(stored), shape(of) {
    std::vector<std::byte> blocks(static_cast<size_t>(matrix_bytes(format, shape[0], shape[1])));
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<std::byte>(philox(3, i, 0)[0]);
    const auto each = static_cast<size_t>(block_bytes(format));
    if (format != Format::fp8)
      for (size_t b = 0; b < blocks.size(); b += each)
        for (const size_t high :
             has_least(format) ? std::vector<size_t>{1, 3} : std::vector<size_t>{1})
          blocks[b + high] &= std::byte{0xbf};
    tiles.assign(static_cast<size_t>(stored_shape(format, shape).num_elements()) + 8, {});
    to_tiles(format, blocks, shape[0], shape[1], std::span(tiles).subspan(8));
  }
  Weight weight() const {
    return {ConstView(tiles.data() + 8, DType::u8, stored_shape(format, shape)), format, shape};
  }
  Format format;
  Shape shape;
  std::vector<std::byte> tiles;
};

/// One block and more, one row, one more and one less than a group has, and groups that alternate.
TEST(Widen, GivesTheNumbersOfBlocks) {
  for (const Format format : kFormats) {
    for (const Shape& shape :
         {Shape{1, 32}, Shape{16, 64}, Shape{33, 96}, Shape{79, 160}, Shape{200, 2048}}) {
      const Tiled tiled(format, shape);
      for (const DType dtype : kTypes) {
        const std::string what = fmt::format("{} {} to {}", format, shape, dtype);
        const auto run = [&](Exec& exec) {
          TestTensor y(dtype, shape, 3, 1);
          widen(exec, tiled.weight(), y);
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, what);
        testing::expect_same_bits(y, testing::run_reference(run), what);
        const TestTensor expected = TestTensor(DType::f32, shape).fill([&](int64_t i) {
          return static_cast<double>(tile_value(tiled.weight(), i / shape[1], i % shape[1]));
        });
        testing::expect_same_bits(y[0], expected.as(dtype), what);
      }
    }
  }
}

/// Rows within one group, from one on into others, and up to the last; y's rows have gaps.
TEST(Widen, GivesRowsFromAnyOnOn) {
  struct Rows {
    int64_t first, count;
  };
  const Shape shape{200, 96};
  for (const Format format : {Format::q8_0, Format::q4_0, Format::q4_1, Format::fp8}) {
    const Tiled tiled(format, shape);
    for (const Rows& rows : {Rows{3, 5}, Rows{15, 18}, Rows{64, 64}, Rows{130, 70}, Rows{199, 1}}) {
      const Shape part{rows.count, shape[1]};
      const std::string what = fmt::format("{} of {} from {}", part, format, rows.first);
      const auto run = [&](Exec& exec) {
        TestTensor y(DType::f32, part, 3, 1);
        widen(exec, tiled.weight(), y, rows.first);
        return Outputs{y};
      };
      const Outputs y = testing::run_everywhere(run, what);
      testing::expect_same_bits(y, testing::run_reference(run), what);
      const TestTensor expected = TestTensor(DType::f32, part).fill([&](int64_t i) {
        return static_cast<double>(
            tile_value(tiled.weight(), rows.first + i / shape[1], i % shape[1]));
      });
      testing::expect_same_bits(y[0], expected, what);
    }
  }
}

TEST(Widen, RowsOfPlainNumbersAreCast) {
  const Shape shape{37, 96}, part{18, 96};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const TestTensor w = TestTensor(dtype, shape).fill_normal(1);
    const auto run = [&](Exec& exec) {
      TestTensor y(dtype == DType::f64 ? DType::f64 : DType::f32, part, 2);
      widen(exec, Weight(w.view()), y, 15);
      return Outputs{y};
    };
    const Outputs y = testing::run_everywhere(run, std::string(name_of(dtype)));
    for (int64_t t = 0; t < part[0]; ++t)
      for (int64_t i = 0; i < part[1]; ++i)
        ASSERT_EQ(y[0].at(t, i), w.at(15 + t, i)) << name_of(dtype);
  }
}

TEST(Widen, RowsWithAScaleOfTheirOwnGoToTheReference) {
  const Tiled tiled(Format::fp8, Shape{20, 64});
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor y(DType::f32, tiled.shape);
  widen(exec, tiled.weight(), y);
  for (int64_t i = 0; i < y.size(); ++i) {
    const auto expected = static_cast<double>(tile_value(tiled.weight(), i / 64, i % 64));
    if (std::isnan(expected)) continue;
    ASSERT_EQ(y.at(i), expected) << i;
  }
}

TEST(Widen, RefusesOtherShapesAndTypes) {
  const Tiled tiled(Format::q4_0, Shape{20, 64});
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor y(DType::f32, Shape{20, 64}), other(DType::f32, Shape{64, 20});
  TestTensor wide(DType::f64, Shape{20, 64});
  EXPECT_THROW(widen(exec, tiled.weight(), other), InternalError);
  EXPECT_THROW(widen(exec, tiled.weight(), wide), InternalError);
  EXPECT_THROW(widen(exec, tiled.weight(), y, 1), InternalError);
  EXPECT_THROW(widen(exec, tiled.weight(), y, -1), InternalError);
  EXPECT_THROW(widen(exec, Weight(y.view()), y, 1), InternalError);
  const Weight cut(tiled.weight().view, Format::q4_0, Shape{36, 64});
  EXPECT_THROW(widen(exec, cut, TestTensor(DType::f32, Shape{36, 64})), InternalError);
}

TEST(Widen, IsCountedUnderTrace) {
  const Shape shape{40, 64};
  const auto run = [&](Exec& exec) {
    const ConstView tiles(nullptr, DType::u8, stored_shape(Format::q4_0, shape));
    widen(exec, Weight(tiles, Format::q4_0, shape), View(nullptr, DType::bf16, shape));
  };
  const device::Work work = testing::traced_work(run, "widen");
  EXPECT_EQ(work.bytes_read, 48 * 2 * 18);
  EXPECT_EQ(work.bytes_written, 40 * 64 * 2);
}

}  // namespace
}  // namespace megalith::kernels
