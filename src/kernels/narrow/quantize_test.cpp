// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/quantize.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/narrow/narrow_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr DType kWide[] = {DType::f32, DType::bf16};
constexpr DType kCodes[] = {DType::f8_e4m3, DType::f8_e5m2};

TestTensor numbers(DType dtype, const ElementwiseCase& c) {
  return TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, c.misaligned).fill([](int64_t i) {
    return static_cast<double>(narrow_number(i));
  });
}
TestTensor one(DType dtype, double value) {
  return TestTensor(dtype, Shape{1}).fill([=](int64_t) { return value; });
}

TEST(Quantize, EqualsTheReferenceWithAllThatItWrites) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType from : kWide) {
      for (const DType to : kCodes) {
        for (const double by : {1.0, 0.3, 1e-4, 1e6}) {
          const TestTensor x = numbers(from, c), scale = one(DType::f32, by);
          const auto run = [&](Exec& exec) {
            TestTensor y(to, x.shape(), c.gap, c.misaligned);
            TestTensor turned(to, Shape{c.columns, c.rows}, c.gap, c.misaligned);
            TestTensor amax = one(DType::f32, 0.25);
            TestTensor counts(DType::i64, Shape{kQuantizeCounts});
            counts.fill([](int64_t i) { return static_cast<double>(i); });
            quantize(exec, {x, y, scale, turned, amax, counts});
            return Outputs{y, turned, amax, counts};
          };
          const std::string what =
              fmt::format("{} to {} by {} {}x{}", from, to, by, c.rows, c.columns);
          const Outputs y = testing::run_everywhere(run, what);
          testing::expect_same_bits(y, testing::run_reference(run), what);
        }
      }
    }
  }
}

TEST(Quantize, WithoutTheExtrasGivesTheSameCodes) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    const TestTensor x = numbers(DType::f32, c), scale = one(DType::f32, 0.7);
    const auto run = [&](Exec& exec) {
      TestTensor y(DType::f8_e4m3, x.shape(), c.gap, c.misaligned);
      quantize(exec, {x, y, scale});
      return Outputs{y};
    };
    testing::expect_same_bits(testing::run_everywhere(run, "plain"), testing::run_reference(run),
                              "plain");
  }
}

TEST(Quantize, CountsWhatSaturatesIsFlushedOrIsNotFinite) {
  TestTensor x(DType::f32, Shape{10});
  // Codes of e4m3 end at 448; 464 is the middle to the next and still rounds to it. The least is
  // 2^-9; half of it rounds to 0.
  const double values[] = {448, 464, 464.5, -1e30, 0x1p-9, 0x1p-10, -0x1p-20, 0, NAN, INFINITY};
  x.fill([&](int64_t i) { return values[i]; });
  const TestTensor scale = one(DType::f32, 1);
  const Outputs out = testing::run_everywhere(
      [&](Exec& exec) {
        TestTensor y(DType::f8_e4m3, x.shape()), amax = one(DType::f32, 0);
        TestTensor counts(DType::i64, Shape{kQuantizeCounts});
        counts.fill([](int64_t) { return 0; });
        quantize(exec, {.x = x, .y = y, .scale = scale, .amax = amax, .counts = counts});
        return Outputs{y, amax, counts};
      },
      "counts");
  EXPECT_EQ(out[2].at(0), 2);  // 464.5 and -1e30
  EXPECT_EQ(out[2].at(1), 2);  // 2^-10 and -2^-20
  EXPECT_EQ(out[2].at(2), 2);
  EXPECT_TRUE(std::isinf(out[1].at(0)));
  EXPECT_EQ(out[0].at(9), 448);
  EXPECT_TRUE(std::isnan(out[0].at(8)));
}

TEST(Quantize, AmaxPassesOverNaNAndKeepsWhatIsLarger) {
  TestTensor x(DType::bf16, Shape{3, 37});
  x.fill([](int64_t i) { return i % 4 == 0 ? NAN : -0.5 - 1.0 / 64 * static_cast<double>(i % 7); });
  const Outputs out = testing::run_everywhere(
      [&](Exec& exec) {
        TestTensor low = one(DType::f32, 0), high = one(DType::f32, 3);
        absolute_maximum(exec, x, low);
        absolute_maximum(exec, x, high);
        return Outputs{low, high};
      },
      "amax");
  EXPECT_EQ(out[0].at(0), 0.5 + 6.0 / 64);
  EXPECT_EQ(out[1].at(0), 3);
}

TEST(Quantize, DequantizeEqualsTheReference) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType from : kCodes) {
      for (const DType to : kWide) {
        TestTensor x(from, Shape{c.rows, c.columns}, c.gap, c.misaligned);
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t at = i / c.columns * (c.columns + c.gap) + i % c.columns;
          x.view().data()[at] = static_cast<std::byte>(i * 37 % 256);
        }
        const TestTensor scale = one(DType::f32, 0.3);
        const auto run = [&](Exec& exec) {
          TestTensor y(to, x.shape(), c.gap, c.misaligned);
          dequantize(exec, {x, y, scale});
          return Outputs{y};
        };
        testing::expect_same_bits(testing::run_everywhere(run, "dequantize"),
                                  testing::run_reference(run), "dequantize");
      }
    }
  }
}

TEST(Quantize, RefusesWrongTypesAndShapes) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const TestTensor x(DType::f32, Shape{3, 4}), scale = one(DType::f32, 1),
                                               wide = one(DType::f64, 1);
  TestTensor y(DType::f8_e4m3, Shape{3, 4}), same(DType::f8_e4m3, Shape{3, 4}),
      other(DType::f8_e5m2, Shape{4, 3}), bf16(DType::bf16, Shape{3, 4});
  EXPECT_THROW(quantize(exec, {x, bf16, scale}), InternalError);
  EXPECT_THROW(quantize(exec, {x, y, wide}), InternalError);
  EXPECT_THROW(quantize(exec, {x, y, scale, same}), InternalError);
  EXPECT_THROW(quantize(exec, {x, y, scale, other}), InternalError);
  EXPECT_THROW(dequantize(exec, {x, bf16, scale}), InternalError);
}

TEST(Quantize, TraceCountsBytes) {
  const TestTensor x(DType::bf16, Shape{3, 4}), scale = one(DType::f32, 1);
  TestTensor y(DType::f8_e4m3, Shape{3, 4}), turned(DType::f8_e4m3, Shape{4, 3});
  const auto work = testing::traced_work(
      [&](Exec& exec) {
        quantize(exec, {x, y, scale, turned});
      },
      "quantize");
  EXPECT_EQ(work.bytes_read, 24);
  EXPECT_EQ(work.bytes_written, 24);
}

}  // namespace
}  // namespace megalith::kernels
