// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/activate.h"

#include <gtest/gtest.h>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "math/elementary.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

TestTensor tensor(DType dtype, const ElementwiseCase& c) {
  return TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, c.misaligned);
}

TEST(Activation, EqualsTheReferenceWithinItsBound) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const Activation kind : kActivations) {
      for (const DType in : kNarrow) {
        for (const DType out : kNarrow) {
          const TestTensor x = tensor(in, c).fill_normal(3, 2.5),
                           dy = tensor(out, c).fill_normal(4);
          const auto run = [&](Exec& exec) {
            TestTensor y = tensor(out, c), dx = tensor(in, c);
            activation_forward(exec, x, y, kind);
            activation_backward(exec, dy, x, dx, kind);
            return Outputs{y, dx};
          };
          const std::string what = fmt::format("{} {}x{}", kind, c.rows, c.columns);
          const Outputs y = testing::run_everywhere(run, what);
          const Outputs expected = testing::run_reference(run);
          // math/elementary.h: |error| of a value <= 16 ulp of |x| here, of its derivative <=
          // 2^-21; then the rounding of the result.
          testing::expect_close(
              y[0], expected[0],
              [&](int64_t i) {
                return 0x1p-20 * std::abs(x.at(i)) * 0.5 +
                       2 * testing::unit_roundoff(out) * std::abs(expected[0].at(i));
              },
              what);
          testing::expect_close(
              y[1], expected[1],
              [&](int64_t i) {
                return 0x1p-20 * std::abs(dy.at(i)) +
                       2 * testing::unit_roundoff(in) * std::abs(expected[1].at(i));
              },
              what);
        }
      }
    }
  }
}

/// One activation of math/elementary.h and its derivative.
struct Functions {
  Activation kind;
  float (*value)(float);
  float (*derivative)(float);
};
constexpr Functions kFunctions[] = {
    {Activation::gelu_tanh, elementary::gelu_tanh, elementary::gelu_tanh_grad},
    {Activation::gelu_erf, elementary::gelu_erf, elementary::gelu_erf_grad},
    {Activation::gelu_quick, elementary::gelu_quick, elementary::gelu_quick_grad},
    {Activation::silu, elementary::silu, elementary::silu_grad},
    {Activation::relu, [](float u) { return u > 0 ? u : 0.0f; },
     [](float u) { return u > 0 ? 1.0f : 0.0f; }}};

TEST(Activation, EqualsTheElementaryFunctionsBitByBit) {
  const ElementwiseCase c = {11, 101, 1, 1};
  const TestTensor x = tensor(DType::f32, c).fill_normal(5, 4),
                   dy = tensor(DType::f32, c).fill_normal(6);
  for (const Functions& functions : kFunctions) {
    const auto run = [&](Exec& exec) {
      TestTensor y = tensor(DType::f32, c), dx = tensor(DType::f32, c);
      activation_forward(exec, x, y, functions.kind);
      activation_backward(exec, dy, x, dx, functions.kind);
      return Outputs{y, dx};
    };
    const Outputs y = testing::run_everywhere(run, "bits");
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto u = static_cast<float>(x.at(i)), g = static_cast<float>(dy.at(i));
      ASSERT_EQ(static_cast<float>(y[0].at(i)), functions.value(u)) << name_of(functions.kind);
      ASSERT_EQ(static_cast<float>(y[1].at(i)), g * functions.derivative(u))
          << name_of(functions.kind);
    }
  }
}

TEST(Activation, ReluOfBf16IsExact) {
  const ElementwiseCase c = {13, 71, 3};
  const TestTensor x = tensor(DType::bf16, c).fill_integers(7, -3, 3),
                   dy = tensor(DType::bf16, c).fill_integers(8, -5, 5);
  const auto run = [&](Exec& exec) {
    TestTensor y = tensor(DType::bf16, c), dx = tensor(DType::bf16, c);
    activation_forward(exec, x, y, Activation::relu);
    activation_backward(exec, dy, x, dx, Activation::relu);
    return Outputs{y, dx};
  };
  testing::expect_same_bits(testing::run_everywhere(run, "relu"), testing::run_reference(run),
                            "relu");
}

TEST(Activation, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  exec.only = "reference";
  for (const Activation kind : kActivations) {
    TestTensor x(DType::f64, Shape{5, 9});
    x.fill([](int64_t i) {  // the corner of relu is farther than a difference's two steps
      const double u = 2 * normal(7, static_cast<uint64_t>(i));
      return u + std::copysign(0.01, u);
    });
    const TestTensor dy = TestTensor(DType::f64, Shape{5, 9}).fill_normal(8);
    TestTensor y(DType::f64, Shape{5, 9}), dx(DType::f64, Shape{5, 9});
    activation_backward(exec, dy, x, dx, kind);
    const auto loss = [&] {
      activation_forward(exec, x, y, kind);
      return testing::weighted_sum(y, dy);
    };
    testing::expect_gradient(loss, x, dx, 1e-9, std::string(name_of(kind)));
  }
}

TEST(Activation, ZeroStaysZeroAndNaNStaysNaN) {
  TestTensor x(DType::f32, Shape{1, 19});
  x.fill([](int64_t i) { return i % 2 == 0 ? 0.0 : NAN; });
  for (const Activation kind : kActivations) {
    const auto run = [&](Exec& exec) {
      TestTensor y(DType::bf16, Shape{1, 19});
      activation_forward(exec, x, y, kind);
      return Outputs{y};
    };
    const Outputs y = testing::run_everywhere(run, "specials");
    for (int64_t i = 0; i < x.size(); ++i) {
      if (i % 2 == 0) {
        EXPECT_EQ(y[0].at(i), 0);
      } else {
        EXPECT_TRUE(std::isnan(y[0].at(i)));
      }
    }
  }
}

TEST(Activation, WorksInPlace) {
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor x = TestTensor(DType::f32, Shape{7, 33}).fill_normal(9);
  TestTensor y(DType::f32, Shape{7, 33});
  activation_forward(exec, x, y, Activation::gelu_tanh);
  activation_forward(exec, x, x, Activation::gelu_tanh);
  testing::expect_same_bits(x, y, "in place");
}

TEST(Activation, TraceCountsBytes) {
  TestTensor x(DType::bf16, Shape{3, 4}), y(DType::f32, Shape{3, 4});
  const auto work = testing::traced_work(
      [&](Exec& e) { activation_forward(e, x, y, Activation::gelu_tanh); }, "activation_forward");
  EXPECT_EQ(work.bytes_read, 24);
  EXPECT_EQ(work.bytes_written, 48);
}

}  // namespace
}  // namespace megalith::kernels
