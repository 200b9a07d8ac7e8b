// SPDX-License-Identifier: Apache-2.0
#include "kernels/rotary/rotary.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/rotary/rotary_cases.h"
#include "math/elementary_sin_cos.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;
constexpr double kUnit = 0x1p-24;  // one rounding of f32
constexpr RotaryStyle kStyles[] = {RotaryStyle::half, RotaryStyle::interleaved};
constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};

std::string describe(const RotaryCase& c, RotaryStyle style, DType dtype) {
  return fmt::format("{} of {} in heads of {} {} {}", c.pairs, c.num_heads, c.head_size,
                     style == RotaryStyle::half ? "half" : "interleaved", dtype);
}

/// Llama's frequencies, times a scale.
RotaryFrequencies frequencies_of(int64_t pairs, float scale = 1) {
  RotaryFrequencies frequencies{.pairs = pairs, .scale = scale};
  for (int64_t i = 0; i < pairs; ++i) {
    const double power = static_cast<double>(i) / static_cast<double>(pairs);
    frequencies.inverse[static_cast<size_t>(i)] = static_cast<float>(std::pow(10000.0, -power));
  }
  return frequencies;
}
TestTensor angles_of(const RotaryCase& c, DType dtype = DType::f32) {
  return TestTensor(dtype, Shape{c.rows, 2 * c.pairs}, c.gap, c.misaligned);
}
/// The fused matrix of a case.
TestTensor matrix_of(const RotaryCase& c, DType dtype) {
  const int64_t columns = (c.num_heads + 2 * c.num_kv_heads) * c.head_size;
  return TestTensor(dtype, Shape{c.rows, columns}, c.gap, c.misaligned);
}
HeadsView queries_of(TestTensor& qkv, const RotaryCase& c) {
  return queries(qkv.view(), c.num_heads, c.num_kv_heads, c.head_size);
}
/// The matrix after its query and key heads have been turned.
TestTensor turned(Exec& exec, TestTensor qkv, const TestTensor& angles, const RotaryCase& c,
                  RotaryStyle style, bool inverse = false) {
  rotary_apply(exec, {queries_of(qkv, c), angles, style, inverse});
  rotary_apply(
      exec, {keys(qkv.view(), c.num_heads, c.num_kv_heads, c.head_size), angles, style, inverse});
  return qkv;
}

/// What the element at `column` of the matrix is paired with, and its pair; nothing for those that
/// stay.
struct Place {
  bool turns = false, is_second = false;
  int64_t pair = 0, partner = 0;  // partner: its column
};
Place place_of(int64_t column, const RotaryCase& c, RotaryStyle style) {
  const int64_t per_group = (c.num_heads / c.num_kv_heads + 2) * c.head_size;
  const int64_t element = column % c.head_size;
  const bool is_value = column % per_group >= per_group - c.head_size;
  if (is_value || element >= 2 * c.pairs) return {};
  if (style == RotaryStyle::interleaved)
    return {true, element % 2 == 1, element / 2, element % 2 == 1 ? column - 1 : column + 1};
  const bool second = element >= c.pairs;
  return {true, second, element % c.pairs, second ? column - c.pairs : column + c.pairs};
}

TEST(Rotary, AnglesAreTheStatedProductsBitByBit) {
  const int32_t positions[] = {0, 1, 7, 4095, 131071, 16777217, 2147483647, -3};
  for (const int64_t pairs : {1, 5, 16, 24, 67, 256}) {
    const RotaryFrequencies frequencies = frequencies_of(pairs, 1.25f);
    const RotaryCase c = {8, 1, 1, 512, pairs, 3, 1};
    TestTensor position(DType::i32, Shape{c.rows});
    position.fill([&](int64_t t) { return positions[t]; });
    const auto run = [&](Exec& exec) {
      TestTensor angles = angles_of(c);
      rotary_angles(exec, {position, frequencies, angles});
      return Outputs{angles};
    };
    const Outputs actual = testing::run_everywhere(run, "angles"),
                  expected = testing::run_reference(run);
    for (int64_t t = 0; t < c.rows; ++t) {
      for (int64_t i = 0; i < pairs; ++i) {
        const float angle =
            static_cast<float>(positions[t]) * frequencies.inverse[static_cast<size_t>(i)];
        const elementary::SinCos turn = elementary::sin_cos(angle);
        ASSERT_EQ(static_cast<float>(actual[0].at(t, i)), turn.cos * 1.25f) << angle;
        ASSERT_EQ(static_cast<float>(actual[0].at(t, pairs + i)), turn.sin * 1.25f) << angle;
      }
    }
    // The rounding of the sine, of its product with the scale, of the reference.
    const auto bound = [&](int64_t i) { return 3.01 * kUnit * std::abs(expected[0].at(i)); };
    testing::expect_close(actual[0], expected[0], bound, fmt::format("{} pairs", pairs));
  }
}

TEST(Rotary, EqualsTheReferenceWithinItsBound) {
  for (const RotaryCase& c : kRotaryCases) {
    TestTensor angles = angles_of(c).fill_normal(1);
    for (const RotaryStyle style : kStyles) {
      for (const DType dtype : kNarrow) {
        for (const bool inverse : {false, true}) {
          const TestTensor x = matrix_of(c, dtype).fill_normal(2);
          const auto run = [&](Exec& exec) {
            return Outputs{turned(exec, x, angles, c, style, inverse)};
          };
          const std::string what = describe(c, style, dtype);
          const Outputs actual = testing::run_everywhere(run, what),
                        expected = testing::run_reference(run);
          // One product rounded, the fma rounded, both results rounded when stored.
          const auto bound = [&](int64_t k) {
            const int64_t t = k / x.columns(), column = k % x.columns();
            const Place place = place_of(column, c, style);
            if (!place.turns) return 0.0;
            const double size =
                std::abs(x.at(t, place.partner) * angles.at(t, c.pairs + place.pair)) +
                std::abs(x.at(t, column) * angles.at(t, place.pair));
            return 2.01 * kUnit * size +
                   2 * testing::unit_roundoff(dtype) * std::abs(expected[0].at(k));
          };
          testing::expect_close(actual[0], expected[0], bound, what);
        }
      }
    }
  }
}

TEST(Rotary, ElementsAreTheStatedChainAndOthersStay) {
  for (const RotaryCase& c : kRotaryCases) {
    const TestTensor angles = angles_of(c).fill_normal(3);
    const TestTensor x = matrix_of(c, DType::f32).fill_normal(4);
    for (const RotaryStyle style : kStyles) {
      const auto run = [&](Exec& exec) { return Outputs{turned(exec, x, angles, c, style)}; };
      const Outputs y = testing::run_everywhere(run, describe(c, style, DType::f32));
      for (int64_t k = 0; k < x.size(); ++k) {
        const int64_t t = k / x.columns(), column = k % x.columns();
        const Place place = place_of(column, c, style);
        auto expected = static_cast<float>(x.at(k));
        if (place.turns) {
          const auto cosine = static_cast<float>(angles.at(t, place.pair));
          const auto sine = static_cast<float>(angles.at(t, c.pairs + place.pair));
          const float product = static_cast<float>(x.at(t, place.partner)) * sine;
          expected = std::fma(expected, cosine, place.is_second ? product : -product);
        }
        ASSERT_EQ(static_cast<float>(y[0].at(k)), expected) << k;
      }
    }
  }
}

TEST(Rotary, ExactNumbersGiveExactBits) {
  const RotaryCase c = {23, 4, 2, 37, 13, 1, 1};
  const TestTensor angles = angles_of(c).fill_integers(5, -3, 3);
  for (const RotaryStyle style : kStyles) {
    for (const DType dtype : kNarrow) {
      const TestTensor x = matrix_of(c, dtype).fill_integers(6, -7, 7);
      const auto run = [&](Exec& exec) { return Outputs{turned(exec, x, angles, c, style)}; };
      const Outputs actual = testing::run_everywhere(run, "exact");
      testing::expect_close(actual[0], testing::run_reference(run)[0], 0,
                            describe(c, style, dtype));
    }
  }
}

TEST(Rotary, InverseIsTheGradient) {
  const RotaryCase c = {4, 2, 1, 7, 3};
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor position(DType::i32, Shape{c.rows}), angles = angles_of(c, DType::f64);
  position.fill([](int64_t t) { return 5 * t + 1; });
  rotary_angles(exec, {position, frequencies_of(c.pairs, 0.75f), angles});
  for (const RotaryStyle style : kStyles) {
    TestTensor x = matrix_of(c, DType::f64).fill_normal(7);
    const TestTensor dy = matrix_of(c, DType::f64).fill_normal(8);
    const auto loss = [&] { return testing::weighted_sum(turned(exec, x, angles, c, style), dy); };
    testing::expect_gradient(loss, x, turned(exec, dy, angles, c, style, true), 1e-9, "dx");
  }
}

TEST(Rotary, ProductsDependOnTheDistanceOfPositionsAlone) {
  const RotaryCase c = {2, 1, 1, 16, 8};
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const TestTensor x = matrix_of(c, DType::f64).fill_normal(9);
  for (const RotaryStyle style : kStyles) {
    const auto product = [&](int32_t query, int32_t key) {
      TestTensor position(DType::i32, Shape{2}), angles = angles_of(c, DType::f64);
      position.fill([&](int64_t t) { return t == 0 ? query : key; });
      rotary_angles(exec, {position, frequencies_of(c.pairs), angles});
      const TestTensor y = turned(exec, x, angles, c, style);
      double sum = 0;
      for (int64_t d = 0; d < c.head_size; ++d) sum += y.at(0, d) * y.at(1, c.head_size + d);
      return sum;
    };
    EXPECT_NEAR(product(11, 4), product(1007, 1000), 1e-10);
    EXPECT_NEAR(product(0, 0), product(77, 77), 1e-10);
    EXPECT_GT(std::abs(product(11, 4) - product(4, 11)), 1e-3);
  }
}

TEST(Rotary, TurningBackRestores) {
  const RotaryCase c = {31, 2, 2, 64, 32};
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor position(DType::i32, Shape{c.rows}), angles = angles_of(c);
  position.fill([](int64_t t) { return 977 * t; });
  rotary_angles(exec, {position, frequencies_of(c.pairs), angles});
  const TestTensor x = matrix_of(c, DType::f32).fill_normal(10);
  for (const RotaryStyle style : kStyles) {
    const TestTensor y = turned(exec, x, angles, c, style);
    // The table's roundings (c^2 + s^2 = 1 within 4 units) and three of each turn, of numbers not
    // above |x1| + |x2|.
    testing::expect_close(
        turned(exec, y, angles, c, style, true), x,
        [&](int64_t k) {
          const Place place = place_of(k % x.columns(), c, style);
          return 12 * kUnit * (std::abs(x.at(k)) + std::abs(x.at(k / x.columns(), place.partner)));
        },
        "there and back");
  }
}

TEST(Rotary, WrongShapesAreRefusedAndBytesCounted) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const RotaryCase c = {3, 2, 1, 8, 4};
  TestTensor qkv = matrix_of(c, DType::bf16), position(DType::i32, Shape{c.rows}),
             angles = angles_of(c), wide(DType::f32, Shape{3, 10}), f64 = angles_of(c, DType::f64);
  EXPECT_THROW(rotary_apply(exec, {queries_of(qkv, c), wide}), InternalError);
  EXPECT_THROW(rotary_apply(exec, {queries_of(qkv, c), f64}), InternalError);
  EXPECT_THROW(rotary_angles(exec, {position, frequencies_of(5), angles}), InternalError);
  EXPECT_THROW(rotary_angles(exec, {position, RotaryFrequencies(), angles}), InternalError);
  const auto apply = testing::traced_work(
      [&](Exec& e) {
        rotary_apply(e, {queries_of(qkv, c), angles});
      },
      "rotary_apply");
  EXPECT_EQ(apply.bytes_read, 3 * 2 * 8 * 2 + 3 * 8 * 4);
  EXPECT_EQ(apply.bytes_written, 3 * 2 * 8 * 2);
  const auto table = testing::traced_work(
      [&](Exec& e) {
        rotary_angles(e, {position, frequencies_of(4), angles});
      },
      "rotary_angles");
  EXPECT_EQ(table.bytes_read, 12);
  EXPECT_EQ(table.bytes_written, 3 * 8 * 4);
}

}  // namespace
}  // namespace megalith::kernels
