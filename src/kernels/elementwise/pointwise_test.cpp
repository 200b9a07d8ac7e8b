// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pointwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/elementwise_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

std::string describe(const ElementwiseCase& c) {
  return fmt::format("{}x{} gap {} misaligned {}", c.rows, c.columns, c.gap, c.misaligned);
}
TestTensor tensor(DType dtype, const ElementwiseCase& c) {
  return TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, c.misaligned);
}

TEST(Pointwise, CastRoundsOnceBetweenAnyPair) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType from : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        const TestTensor x = tensor(from, c).fill_normal(1);
        const auto run = [&](Exec& exec) {
          TestTensor y = tensor(to, c);
          cast(exec, x, y);
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, describe(c));
        testing::expect_same_bits(y, testing::run_reference(run), describe(c));
      }
    }
  }
}

TEST(Pointwise, CastOfF64ToBf16IsNotRoundedTwice) {
  // Just above the middle of two bf16 numbers by less than f32 can see: f32 first would make it a
  // tie.
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor x(DType::f64, Shape{4});
  const double middle = 1 + 0x1p-8, hair = 0x1p-40;
  const double values[] = {middle + hair, middle - hair, middle, -(middle + hair)};
  x.fill([&](int64_t i) { return values[i]; });
  TestTensor y(DType::bf16, Shape{4});
  cast(exec, x, y);
  EXPECT_EQ(y.at(0), 1 + 0x1p-7);
  EXPECT_EQ(y.at(1), 1);
  EXPECT_EQ(y.at(2), 1);  // the tie goes to even
  EXPECT_EQ(y.at(3), -(1 + 0x1p-7));
}

TEST(Pointwise, AddAndScaleEqualTheReferenceRoundedOnce) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType a_type : kNarrow) {
      for (const DType b_type : kNarrow) {
        for (const DType y_type : kNarrow) {
          const TestTensor a = tensor(a_type, c).fill_normal(1),
                           b = tensor(b_type, c).fill_normal(2),
                           factors = TestTensor(DType::f32, Shape{c.columns}).fill_normal(3);
          const auto run = [&](Exec& exec) {
            TestTensor y = tensor(y_type, c);
            add(exec, a, b, y);
            TestTensor scaled = tensor(y_type, c).fill([&](int64_t i) { return a.at(i); });
            TestTensor by_column = scaled;
            scale(exec, scaled, 0.3f);
            scale(exec, by_column, factors);
            return Outputs{y, scaled, by_column};
          };
          const Outputs y = testing::run_everywhere(run, describe(c));
          const Outputs expected = testing::run_reference(run);
          // In f32 one rounding; in bf16 f32's comes first.
          const double unit = testing::unit_roundoff(y_type) * (1 + 0x1p-15);
          for (size_t k = 0; k < y.size(); ++k) {
            testing::expect_close(
                y[k], expected[k],
                [&](int64_t i) { return 2 * unit * std::abs(expected[k].at(i)); }, describe(c));
          }
        }
      }
    }
  }
}

TEST(Pointwise, SoftcapEqualsTheReferenceWithinItsBound) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType dtype : kNarrow) {
      for (const float cap : {0.5f, 30.0f}) {
        const TestTensor x = tensor(dtype, c).fill_normal(1, 3);
        const auto run = [&](Exec& exec) {
          TestTensor y = x;
          softcap(exec, y, 1.5f, cap);
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, describe(c));
        const Outputs expected = testing::run_reference(run);
        // tanh is within 1.5 ulp, 3 u; scale / cap, the argument and the product round (a relative
        // error of the argument is at most that of tanh): 6 u, then both results.
        const double relative = 6 * 0x1p-24 + 2 * testing::unit_roundoff(dtype) * (1 + 0x1p-6);
        testing::expect_close(
            y[0], expected[0], [&](int64_t i) { return relative * std::abs(expected[0].at(i)); },
            describe(c));
        for (int64_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(y[0].at(i)), cap);
      }
    }
  }
}

TEST(Pointwise, SoftcapBackwardEqualsTheReferenceWithinItsBound) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType dtype : kNarrow) {
      const TestTensor dy = tensor(dtype, c).fill_normal(1);
      const TestTensor y = tensor(dtype, c).fill(
          [&](int64_t i) { return 1.8 * std::tanh(normal(2, static_cast<uint64_t>(i))); });
      const auto run = [&](Exec& exec) {
        TestTensor dx = tensor(dtype, c);
        softcap_backward(exec, dy, y, dx, 1.5f, 2.0f);
        return Outputs{dx};
      };
      const Outputs dx = testing::run_everywhere(run, describe(c));
      const Outputs expected = testing::run_reference(run);
      // The quotient by 2 is exact and the square not rounded; 1 - t^2 and the two products round;
      // then both results.
      const double relative = 3.01 * 0x1p-24 + 2.02 * testing::unit_roundoff(dtype);
      testing::expect_close(
          dx[0], expected[0], [&](int64_t i) { return relative * std::abs(expected[0].at(i)); },
          describe(c));
    }
  }
}

TEST(Pointwise, SoftcapBackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor x = TestTensor(DType::f64, Shape{5, 7}).fill_normal(1);
  const TestTensor dy = TestTensor(DType::f64, Shape{5, 7}).fill_normal(2);
  const auto capped = [&] {
    TestTensor y = x;
    softcap(exec, y, 1.5f, 2.0f);
    return y;
  };
  TestTensor dx(DType::f64, Shape{5, 7});
  softcap_backward(exec, dy, capped(), dx, 1.5f, 2.0f);
  testing::expect_gradient([&] { return testing::weighted_sum(capped(), dy); }, x, dx, 1e-9, "x");
}

TEST(Pointwise, ExactNumbersGiveExactBits) {
  const ElementwiseCase c = {37, 53, 3, 1};
  for (const DType dtype : kNarrow) {
    const TestTensor a = tensor(dtype, c).fill_integers(1, -60, 60),
                     b = tensor(dtype, c).fill_integers(2, -60, 60);
    const auto run = [&](Exec& exec) {
      TestTensor y = tensor(dtype, c);
      add(exec, a, b, y);
      TestTensor z = a;
      scale(exec, z, -0.5f);
      return Outputs{y, z};
    };
    const Outputs y = testing::run_everywhere(run, "integers");
    for (int64_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(y[0].at(i), a.at(i) + b.at(i));
      ASSERT_EQ(y[1].at(i), -0.5 * a.at(i));
    }
  }
}

TEST(Pointwise, ScaleTakesItsFactorFromTheDevice) {
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor factor(DType::f32, Shape{1});
  factor.set(0, 0.25);
  const TestTensor factors = TestTensor(DType::f32, Shape{5}).fill_integers(2, -4, 4);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    TestTensor x = TestTensor(dtype, Shape{3, 5}).fill_integers(1, -9, 9);
    const TestTensor before = x;
    scale(exec, x.view(), ConstView(factor));
    for (int64_t i = 0; i < x.size(); ++i) EXPECT_EQ(x.at(i), 0.25 * before.at(i));
    scale(exec, x.view(), ConstView(factors));
    for (int64_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(x.at(i), 0.25 * factors.at(i % 5) * before.at(i));
    TestTensor few(DType::f32, Shape{3});
    EXPECT_THROW(scale(exec, x.view(), ConstView(few)), InternalError);
  }
}

TEST(Pointwise, NotANumberAndInfinitySurvive) {
  TestTensor x(DType::f32, Shape{2, 21});
  x.fill([](int64_t i) { return i % 5 == 0 ? NAN : i % 5 == 1 ? INFINITY : 1.0; });
  for (const DType to : kNarrow) {
    const auto run = [&](Exec& exec) {
      TestTensor y(to, Shape{2, 21}), z(to, Shape{2, 21});
      cast(exec, x, y);
      add(exec, x, x, z);
      return Outputs{y, z};
    };
    const Outputs y = testing::run_everywhere(run, "specials");
    for (int64_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::isnan(y[0].at(i)), i % 5 == 0);
      ASSERT_EQ(std::isnan(y[1].at(i)), i % 5 == 0);
      ASSERT_EQ(std::isinf(y[1].at(i)), i % 5 == 1);
    }
  }
}

TEST(Pointwise, FillReachesEveryElementAndNothingElse) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const DType dtype :
         {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64}) {
      const auto run = [&](Exec& exec) {
        TestTensor y = tensor(dtype, c);
        fill(exec, y, -3);
        return Outputs{y};
      };
      const Outputs y = testing::run_everywhere(run, describe(c));
      for (int64_t i = 0; i < y[0].size(); ++i) ASSERT_EQ(y[0].at(i), -3);
    }
  }
}

TEST(Pointwise, AnyNumberOfDimensions) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor a(DType::f32, Shape{3, 4, 5}, 2), y(DType::f32, Shape{3, 4, 5}, 7);
  a.fill_integers(1, -9, 9);
  add(exec, a, a, y);
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(y.at(i), 2 * a.at(i));
  y.expect_gaps_untouched();
}

TEST(Pointwise, RefusesDifferentShapes) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor a(DType::f32, Shape{3, 4}), b(DType::f32, Shape{4, 3});
  EXPECT_THROW(add(exec, a, a, b), InternalError);
  EXPECT_THROW(cast(exec, a, b), InternalError);
}

TEST(Pointwise, TraceCountsBytes) {
  TestTensor a(DType::f32, Shape{3, 4}), y(DType::bf16, Shape{3, 4});
  const TestTensor before = y;
  const auto work = testing::traced_work([&](Exec& exec) { add(exec, a, a, y); }, "add");
  EXPECT_EQ(work.bytes_read, 2 * 12 * 4);
  EXPECT_EQ(work.bytes_written, 12 * 2);
  testing::expect_same_bits(y, before, "untouched");
}

}  // namespace
}  // namespace megalith::kernels
