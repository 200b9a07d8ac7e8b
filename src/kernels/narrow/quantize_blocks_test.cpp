// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/quantize_blocks.h"

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
struct Blocks {
  int64_t rows, columns;
};
constexpr Blocks kBlocks[] = {{1, 128}, {128, 1}, {128, 128}, {1, 32}, {32, 1}, {5, 7}, {1, 1}};
constexpr ScaleRule kRules[] = {
    {}, {.power_of_two = true}, {.largest = 57344, .epsilon = 1e-3f}, {.at_most = 0x1p10f}};

TEST(QuantizeBlocks, EqualsTheReference) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType from : kWide) {
      const TestTensor x =
          TestTensor(from, Shape{c.rows, c.columns}, c.gap, c.misaligned).fill([](int64_t i) {
            return static_cast<double>(narrow_number(i));
          });
      for (const Blocks& b : kBlocks) {
        for (const ScaleRule& rule : kRules) {
          for (const DType scale : {DType::f32, DType::f8_e8m0}) {
            const DType to = rule.largest == 448 ? DType::f8_e4m3 : DType::f8_e5m2;
            const auto run = [&](Exec& exec) {
              TestTensor y(to, x.shape(), c.gap, c.misaligned);
              TestTensor scales(scale, block_scales_shape(x.shape(), b.rows, b.columns));
              quantize_blocks(exec, {x, y, scales, b.rows, b.columns, rule});
              Outputs outputs{y, scales};
              for (const DType back : kWide) {
                TestTensor& numbers = outputs.emplace_back(back, x.shape(), c.misaligned, c.gap);
                round_blocks(exec, {x, numbers, to, scale, b.rows, b.columns, rule});
              }
              return outputs;
            };
            const std::string what = fmt::format("{} to {} in {}x{} of {}x{} by {}", from, to,
                                                 b.rows, b.columns, c.rows, c.columns, scale);
            testing::expect_same_bits(testing::run_everywhere(run, what),
                                      testing::run_reference(run), what);
          }
        }
      }
    }
  }
}

// Each number is within half a unit of the last place of the block's largest, or of its own; and it
// is what its code stands for.
TEST(QuantizeBlocks, NumbersComeBackWithinAnEighth) {
  TestTensor x(DType::f32, Shape{70, 300});
  x.fill_normal(1);
  for (const Blocks& b : kBlocks) {
    const Outputs out = testing::run_everywhere(
        [&](Exec& exec) {
          TestTensor y(DType::f8_e4m3, x.shape()), back(DType::f32, x.shape());
          TestTensor scales(DType::f32, block_scales_shape(x.shape(), b.rows, b.columns));
          const ScaleRule rule{.power_of_two = true};
          quantize_blocks(exec, {x, y, scales, b.rows, b.columns, rule});
          round_blocks(exec, {x, back, y.dtype(), scales.dtype(), b.rows, b.columns, rule});
          return Outputs{back, scales, y};
        },
        "numbers");
    for (int64_t i = 0; i < x.size(); ++i) {
      const double scale = out[1].at(i / 300 / b.rows, i % 300 / b.columns);
      ASSERT_LE(std::abs(out[0].at(i) - x.at(i)),
                std::max(std::abs(x.at(i)) / 16, scale * 0x1p-10));
      ASSERT_EQ(out[0].at(i), out[2].at(i) * scale);
    }
  }
}

// A block is scaled by itself: numbers k 2^e of one binade each keep their ratios.
TEST(QuantizeBlocks, EachBlockHasItsOwnScale) {
  const int64_t columns = 4 * 32;
  TestTensor x(DType::f32, Shape{2, columns});
  x.fill([&](int64_t i) {
    return std::ldexp(static_cast<double>(i % 8 + 1), static_cast<int>(i / 32));
  });
  const Outputs out = testing::run_everywhere(
      [&](Exec& exec) {
        TestTensor y(DType::f8_e4m3, x.shape()), scales(DType::f8_e8m0, Shape{2, 4});
        quantize_blocks(exec, {x, y, scales, 1, 32});
        return Outputs{y, scales};
      },
      "ratios");
  for (int64_t i = 0; i < x.size(); ++i) {
    // 8 is the largest: 8 / 448 lies between 2^-6 and 2^-5, and is rounded up.
    ASSERT_EQ(out[1].at(i / 32), std::ldexp(1, static_cast<int>(i / 32) - 5));
    ASSERT_EQ(out[0].at(i), 32 * static_cast<double>(i % 8 + 1));
  }
}

TEST(QuantizeBlocks, ABlockOfZerosAndOnesThatAreNotFinite) {
  TestTensor x(DType::f32, Shape{4, 32});
  x.fill([](int64_t i) {
    const int64_t row = i / 32;
    return row == 0 ? 0.0 : row == 1 ? (i % 32 == 5 ? INFINITY : 1.0) : row == 2 ? NAN : 0x1p-140;
  });
  const Outputs out = testing::run_everywhere(
      [&](Exec& exec) {
        TestTensor y(DType::f8_e4m3, x.shape()), scales(DType::f32, Shape{4, 1});
        quantize_blocks(exec, {x, y, scales, 1, 32});
        return Outputs{y, scales};
      },
      "not finite");
  EXPECT_EQ(out[1].at(0), 1);  // nothing to scale by
  EXPECT_EQ(out[1].at(1), 1);
  EXPECT_EQ(out[1].at(2), 1);
  EXPECT_EQ(out[0].at(0), 0);
  EXPECT_EQ(out[0].at(32 + 5), 448);
  EXPECT_EQ(out[0].at(32 + 6), 1);
  EXPECT_TRUE(std::isnan(out[0].at(64)));
  // 448 / 2^-140 is beyond f32: the largest float, whose inverse is the least that is left.
  EXPECT_EQ(out[1].at(3), static_cast<double>(1 / std::numeric_limits<float>::max()));
}

TEST(QuantizeBlocks, RefusesScalesOfAnotherShapeOrType) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const TestTensor x(DType::f32, Shape{4, 64});
  TestTensor y(DType::f8_e4m3, Shape{4, 64}), few(DType::f32, Shape{4, 1}),
      bf16(DType::bf16, Shape{4, 2});
  EXPECT_THROW(quantize_blocks(exec, {x, y, few, 1, 32}), InternalError);
  EXPECT_THROW(quantize_blocks(exec, {x, y, bf16, 1, 32}), InternalError);
  EXPECT_THROW(quantize_blocks(exec, {x, y, few, 0, 32}), InternalError);
  TestTensor numbers(DType::f32, Shape{4, 64}), other(DType::f32, Shape{4, 63});
  EXPECT_THROW(round_blocks(exec, {x, numbers, DType::bf16}), InternalError);
  EXPECT_THROW(round_blocks(exec, {x, numbers, DType::f8_e4m3, DType::bf16}), InternalError);
  EXPECT_THROW(round_blocks(exec, {x, other}), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
