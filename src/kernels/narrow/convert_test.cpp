// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/convert.h"

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

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::f8_e5m2};

std::string describe(const ElementwiseCase& c, DType from, DType to) {
  return fmt::format("{} to {} {}x{} gap {} misaligned {}", from, to, c.rows, c.columns, c.gap,
                     c.misaligned);
}

TEST(Convert, EqualsTheScalarConversionBetweenAnyPair) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType from : kTypes) {
      for (const DType to : kTypes) {
        for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
          const Shape shape{c.rows, c.columns};
          const TestTensor x = TestTensor(from, shape, c.gap, c.misaligned).fill([](int64_t i) {
            return static_cast<double>(narrow_number(i));
          });
          const auto run = [&](Exec& exec) {
            TestTensor y(to, shape, c.gap, c.misaligned);
            convert(exec, x, y, overflow);
            return Outputs{y};
          };
          const Outputs y = testing::run_everywhere(run, describe(c, from, to));
          testing::expect_same_bits(y, testing::run_reference(run), describe(c, from, to));
        }
      }
    }
  }
}

// Every code of 8 and 16 bits, NaN's sign included, through every vector path.
template <class T>
void expect_codes_survive(DType dtype, int64_t codes) {
  const Shape shape{codes};
  TestTensor x(dtype, shape);
  for (int64_t i = 0; i < codes; ++i) {
    const auto code = static_cast<uint64_t>(i);
    std::memcpy(x.view().data() + i * bytes_of(dtype), &code, static_cast<size_t>(bytes_of(dtype)));
  }
  const auto run = [&](Exec& exec) {
    TestTensor wide(DType::f32, shape), back(dtype, shape);
    convert(exec, x, wide, Overflow::nonfinite);
    convert(exec, wide, back, Overflow::nonfinite);
    return Outputs{wide, back};
  };
  const Outputs out = testing::run_everywhere(run, fmt::format("{}", dtype));
  for (int64_t i = 0; i < codes; ++i) {
    const float expected = to_f32(x.view().as<T>()[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out[0].at(i))) << name_of(dtype) << " code " << i;
      ASSERT_TRUE(std::isnan(out[1].at(i))) << name_of(dtype) << " code " << i;
      continue;
    }
    ASSERT_EQ(out[0].at(i), static_cast<double>(expected)) << name_of(dtype) << " code " << i;
    ASSERT_EQ(out[1].view().as<T>()[i].bits, i) << name_of(dtype) << " code " << i;
  }
}

TEST(Convert, EveryCodeSurvivesTheRoundTrip) {
  expect_codes_survive<f8_e4m3_t>(DType::f8_e4m3, 1 << 8);
  expect_codes_survive<f8_e5m2_t>(DType::f8_e5m2, 1 << 8);
  expect_codes_survive<f16_t>(DType::f16, 1 << 16);
  expect_codes_survive<bf16_t>(DType::bf16, 1 << 16);
}

// Between two neighbours the middle goes to the even code, and the floats beside it to theirs.
TEST(Convert, EveryMiddleGoesToEven) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    const bool e4m3 = dtype == DType::f8_e4m3;
    const int64_t codes = e4m3 ? 0x7e : 0x7b;  // the largest finite one
    const auto value = [&](int64_t code) {
      const auto bits = static_cast<uint8_t>(code);
      return e4m3 ? to_f32(f8_e4m3_t{bits}) : to_f32(f8_e5m2_t{bits});
    };
    TestTensor x(DType::f32, Shape{3 * codes});
    for (int64_t i = 0; i < codes; ++i) {
      const float middle = 0.5f * (value(i) + value(i + 1));
      x.set(3 * i, static_cast<double>(std::nextafter(middle, 0.0f)));
      x.set(3 * i + 1, static_cast<double>(middle));
      x.set(3 * i + 2, static_cast<double>(std::nextafter(middle, INFINITY)));
    }
    const Outputs y = testing::run_everywhere(
        [&](Exec& exec) {
          TestTensor out(dtype, x.shape());
          convert(exec, x, out, Overflow::saturate);
          return Outputs{out};
        },
        "middles");
    const auto* bits = reinterpret_cast<const uint8_t*>(y[0].view().data());
    for (int64_t i = 0; i < codes; ++i) {
      ASSERT_EQ(bits[3 * i], i);
      ASSERT_EQ(bits[3 * i + 1], i % 2 == 0 ? i : i + 1);
      ASSERT_EQ(bits[3 * i + 2], i + 1);
    }
  }
}

TEST(Convert, RefusesOtherTypesAndShapes) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor a(DType::f32, Shape{3, 4}), b(DType::f8_e4m3, Shape{4, 3}), c(DType::f64, Shape{3, 4}),
      d(DType::f8_e8m0, Shape{3, 4});
  EXPECT_THROW(convert(exec, a, b, Overflow::saturate), InternalError);
  EXPECT_THROW(convert(exec, c, a, Overflow::saturate), InternalError);
  EXPECT_THROW(convert(exec, a, d, Overflow::saturate), InternalError);
}

TEST(Convert, TraceCountsBytes) {
  TestTensor x(DType::f32, Shape{3, 4}), y(DType::f8_e5m2, Shape{3, 4});
  const auto work =
      testing::traced_work([&](Exec& exec) { convert(exec, x, y, Overflow::saturate); }, "convert");
  EXPECT_EQ(work.bytes_read, 12 * 4);
  EXPECT_EQ(work.bytes_written, 12);
}

}  // namespace
}  // namespace megalith::kernels
