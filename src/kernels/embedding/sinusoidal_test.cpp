// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/sinusoidal.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "math/elementary_sin_cos.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;
constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};
constexpr double kUnit = 0x1p-24;  // one rounding of f32

struct Case {
  int64_t rows, pairs;
  int64_t gap = 0, misaligned = 0;
};
constexpr Case kCases[] = {{0, 4},     {1, 1},         {3, 5, 3, 1}, {33, 8},
                           {7, 16, 1}, {19, 41, 5, 1}, {129, 384}};

std::string describe(const Case& c, DType dtype) {
  return fmt::format("{} rows of {} pairs, {}", c.rows, c.pairs, dtype);
}
TestTensor positions_of(const Case& c) {
  constexpr std::array kPositions = {0, 1, 7, 127, 4095, 131071, 16777217, 2147483647};
  TestTensor positions(DType::i32, Shape{c.rows});
  positions.fill([&](int64_t t) { return kPositions[static_cast<size_t>(t) % 8]; });
  return positions;
}
TestTensor inverse_of(const Case& c) {
  TestTensor inverse(DType::f32, Shape{c.pairs});
  inverse.fill([&](int64_t i) {
    return std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(c.pairs));
  });
  return inverse;
}
TestTensor rows_of(const Case& c, DType dtype, uint64_t seed) {
  return TestTensor(dtype, Shape{c.rows, 2 * c.pairs}, c.gap, c.misaligned).fill_normal(seed);
}
elementary::SinCos turn_of(const TestTensor& positions, const TestTensor& inverse, int64_t t,
                           int64_t i) {
  return elementary::sin_cos(static_cast<float>(positions.at(t)) *
                             static_cast<float>(inverse.at(i)));
}

TEST(Sinusoidal, AddsTheStatedMultiplyAddBitByBit) {
  for (const Case& c : kCases) {
    for (const DType dtype : kNarrow) {
      const TestTensor positions = positions_of(c), inverse = inverse_of(c);
      const TestTensor before = rows_of(c, dtype, 3);
      TestTensor scale(dtype, Shape{1});
      scale.set(0, 0.40625);
      const auto run = [&](Exec& exec) {
        TestTensor y = before;
        sinusoidal_forward(exec, {positions, inverse, scale, y});
        return Outputs{y};
      };
      const std::string what = describe(c, dtype);
      const Outputs y = testing::run_everywhere(run, what), expected = testing::run_reference(run);
      for (int64_t t = 0; t < c.rows; ++t) {
        for (int64_t i = 0; i < c.pairs; ++i) {
          const elementary::SinCos turn = turn_of(positions, inverse, t, i);
          for (const bool cosine : {false, true}) {
            const int64_t column = 2 * i + (cosine ? 1 : 0);
            TestTensor stored(dtype, Shape{1});
            stored.set(0, static_cast<double>(std::fma(0.40625f, cosine ? turn.cos : turn.sin,
                                                       static_cast<float>(before.at(t, column)))));
            ASSERT_EQ(y[0].at(t, column), stored.at(0)) << what << ": " << t << ", " << column;
          }
        }
      }
      // The rounding of the sine, of the multiply-add, of both results when stored.
      const auto bound = [&](int64_t k) {
        return 1.01 * kUnit +
               (kUnit + 2 * testing::unit_roundoff(dtype)) * std::abs(expected[0].at(k));
      };
      testing::expect_close(y[0], expected[0], bound, what);
    }
  }
}

TEST(Sinusoidal, SumsOfRowsAreTheStatedChainsBitByBit) {
  for (const Case& c : kCases) {
    for (const DType dtype : kNarrow) {
      const TestTensor positions = positions_of(c), inverse = inverse_of(c);
      const TestTensor dy = rows_of(c, dtype, 5);
      const auto run = [&](Exec& exec) {
        TestTensor sums(DType::f32, Shape{c.rows});
        sinusoidal_backward(exec, {dy, positions, inverse, sums});
        return Outputs{sums};
      };
      const std::string what = describe(c, dtype);
      const Outputs sums = testing::run_everywhere(run, what),
                    expected = testing::run_reference(run);
      for (int64_t t = 0; t < c.rows; ++t) {
        std::array<float, 16> lanes = {};
        double size = 0;
        for (int64_t i = 0; i < c.pairs; ++i) {
          const elementary::SinCos turn = turn_of(positions, inverse, t, i);
          float& lane = lanes[static_cast<size_t>(i % 16)];
          const auto first = static_cast<float>(dy.at(t, 2 * i)),
                     second = static_cast<float>(dy.at(t, 2 * i + 1));
          lane = std::fma(second, turn.cos, std::fma(first, turn.sin, lane));
          size += std::abs(static_cast<double>(first)) + std::abs(static_cast<double>(second));
        }
        for (size_t width = 8; width > 0; width /= 2) {
          for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
        }
        ASSERT_EQ(static_cast<float>(sums[0].at(t)), lanes[0]) << what << ": " << t;
        // A rounding for each term of a lane, four of the tree, one of the sine.
        const double chain = 2.0 * std::ceil(static_cast<double>(c.pairs) / 16) + 5.01;
        ASSERT_NEAR(sums[0].at(t), expected[0].at(t), chain * kUnit * size) << what << ": " << t;
      }
    }
  }
}

TEST(Sinusoidal, MisfitsAreRefused) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor positions(DType::i32, Shape{2}), inverse(DType::f32, Shape{3}),
      y(DType::f32, Shape{2, 6}), odd(DType::f32, Shape{2, 7}), scale(DType::f32, Shape{1}),
      sums(DType::f32, Shape{2}), two(DType::f32, Shape{2}), narrow(DType::bf16, Shape{2});
  EXPECT_THROW(sinusoidal_forward(exec, {positions, inverse, scale, odd}), InternalError);
  EXPECT_THROW(sinusoidal_forward(exec, {positions, two, scale, y}), InternalError);
  EXPECT_THROW(sinusoidal_forward(exec, {positions, inverse, two, y}), InternalError);
  EXPECT_THROW(sinusoidal_backward(exec, {y, positions, inverse, scale}), InternalError);
  EXPECT_THROW(sinusoidal_backward(exec, {y, positions, inverse, narrow}), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
