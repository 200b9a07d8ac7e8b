// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/gated.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/elementwise_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

TestTensor tensor(DType dtype, const ElementwiseCase& c, int64_t width = 1) {
  return TestTensor(dtype, Shape{c.rows, width * c.columns}, c.gap, c.misaligned);
}
/// Forward and backward of u and dy: y and du, stored as `out` and as u.
Outputs run(Exec& exec, const TestTensor& u, const TestTensor& dy, DType out,
            const ElementwiseCase& c, Activation kind) {
  TestTensor y = tensor(out, c), du = tensor(u.dtype(), c, 2);
  gated_forward(exec, {u, y, kind});
  gated_backward(exec, {dy, u, du, kind});
  return {y, du};
}

TEST(Gated, EqualsTheReferenceWithinItsBound) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const Activation kind : kActivations) {
      for (const DType in : kNarrow) {
        for (const DType out : kNarrow) {
          const TestTensor u = tensor(in, c, 2).fill_normal(3, 2.5),
                           dy = tensor(out, c).fill_normal(4);
          const auto both = [&](Exec& exec) { return run(exec, u, dy, out, c, kind); };
          const std::string what = fmt::format("{} {}x{}", kind, c.rows, c.columns);
          const Outputs actual = testing::run_everywhere(both, what);
          const Outputs expected = testing::run_reference(both);
          // math/elementary.h: |error| of an activation <= 16 ulp of |gate| here, of its derivative
          // <= 2^-21; two products and the rounding of the result come on top.
          const auto gate = [&](int64_t j) { return u.at(2 * j); };
          const auto up = [&](int64_t j) { return u.at(2 * j + 1); };
          testing::expect_close(
              actual[0], expected[0],
              [&](int64_t j) {
                return 0x1p-21 * std::abs(gate(j) * up(j)) +
                       4 * testing::unit_roundoff(out) * std::abs(expected[0].at(j));
              },
              what);
          testing::expect_close(
              actual[1], expected[1],
              [&](int64_t i) {
                const int64_t j = i / 2;
                const double size = i % 2 == 0 ? 2 * up(j) : gate(j);
                return 0x1p-21 * std::abs(dy.at(j) * size) +
                       4 * testing::unit_roundoff(in) * std::abs(expected[1].at(i));
              },
              what + " du");
        }
      }
    }
  }
}

TEST(Gated, ExactNumbersGiveExactBits) {
  const ElementwiseCase c = {13, 71, 3, 1};
  for (const Activation kind : {Activation::none, Activation::relu}) {
    for (const DType dtype : kNarrow) {
      const TestTensor u = tensor(dtype, c, 2).fill_integers(1, -5, 5),
                       dy = tensor(dtype, c).fill_integers(2, -3, 3);
      const auto both = [&](Exec& exec) { return run(exec, u, dy, dtype, c, kind); };
      const Outputs actual = testing::run_everywhere(both, "exact"),
                    expected = testing::run_reference(both);
      for (size_t k = 0; k < 2; ++k)
        testing::expect_close(actual[k], expected[k], 0, std::string(name_of(kind)));
    }
  }
}

TEST(Gated, EqualsTheActivationFollowedByAProductBitByBit) {
  const ElementwiseCase c = {19, 83, 2, 1};
  const TestTensor u = tensor(DType::f32, c, 2).fill_normal(5, 3),
                   dy = tensor(DType::f32, c).fill_normal(6);
  for (const Activation kind : kActivations) {
    const auto both = [&](Exec& exec) { return run(exec, u, dy, DType::f32, c, kind); };
    const Outputs fused = testing::run_everywhere(both, "fused");
    const auto composed = [&](Exec& exec) {
      TestTensor gate = tensor(DType::f32, c), product = gate, y = gate, dgate = gate;
      gate.fill([&](int64_t j) { return u.at(2 * j); });
      activation_forward(exec, gate, y, kind);
      product.fill([&](int64_t j) { return dy.at(j) * u.at(2 * j + 1); });
      activation_backward(exec, product, gate, dgate, kind);
      TestTensor du = tensor(DType::f32, c, 2);
      du.fill([&](int64_t i) { return i % 2 == 0 ? dgate.at(i / 2) : dy.at(i / 2) * y.at(i / 2); });
      const TestTensor activated = y;
      y.fill([&](int64_t j) { return activated.at(j) * u.at(2 * j + 1); });
      return Outputs{y, du};
    };
    testing::expect_same_bits(fused, testing::run_everywhere(composed, "composed"),
                              std::string(name_of(kind)));
  }
}

TEST(Gated, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const ElementwiseCase c = {5, 9};
  for (const Activation kind : kActivations) {
    TestTensor u = tensor(DType::f64, c, 2);
    u.fill([](int64_t i) {  // the corner of relu is farther than a difference's two steps
      const double x = 2 * normal(7, static_cast<uint64_t>(i));
      return x + std::copysign(0.01, x);
    });
    const TestTensor dy = tensor(DType::f64, c).fill_normal(8);
    const Outputs y = run(exec, u, dy, DType::f64, c, kind);
    const auto loss = [&] {
      return testing::weighted_sum(run(exec, u, dy, DType::f64, c, kind)[0], dy);
    };
    testing::expect_gradient(loss, u, y[1], 1e-9, std::string(name_of(kind)));
  }
}

TEST(Gated, BackwardMayOverwriteItsInput) {
  const ElementwiseCase c = {7, 33, 1, 1};
  for (const DType dtype : kNarrow) {
    const TestTensor u = tensor(dtype, c, 2).fill_normal(9), dy = tensor(dtype, c).fill_normal(10);
    const auto apart = [&](Exec& exec) {
      return Outputs{run(exec, u, dy, dtype, c, Activation::silu)[1]};
    };
    const auto in_place = [&](Exec& exec) {
      TestTensor du = u;
      gated_backward(exec, {dy, du, du, Activation::silu});
      return Outputs{du};
    };
    testing::expect_same_bits(testing::run_everywhere(in_place, "in place"),
                              testing::run_everywhere(apart, "apart"), "du over u");
  }
}

TEST(Gated, NaNStaysInItsPair) {
  const ElementwiseCase c = {2, 21};
  TestTensor u = tensor(DType::bf16, c, 2).fill_normal(11);
  const TestTensor dy = tensor(DType::bf16, c).fill_normal(12);
  u.set(0, 8, NAN), u.set(1, 41, NAN);
  const auto both = [&](Exec& exec) { return run(exec, u, dy, DType::f32, c, Activation::silu); };
  const Outputs y = testing::run_everywhere(both, "NaN");
  for (int64_t j = 0; j < y[0].size(); ++j) EXPECT_EQ(std::isnan(y[0].at(j)), j == 4 || j == 41);
}

TEST(Gated, WrongShapesAreRefusedAndBytesCounted) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor u(DType::bf16, Shape{3, 8}), y(DType::f32, Shape{3, 4}), odd(DType::f32, Shape{3, 7});
  EXPECT_THROW(gated_forward(exec, {u, odd}), InternalError);
  EXPECT_THROW(gated_backward(exec, {y, u, odd}), InternalError);
  const auto work = testing::traced_work(
      [&](Exec& e) {
        gated_backward(e, {y, u, u});
      },
      "gated_backward");
  EXPECT_EQ(work.bytes_read, 3 * 4 * 4 + 3 * 8 * 2);
  EXPECT_EQ(work.bytes_written, 3 * 8 * 2);
}

}  // namespace
}  // namespace megalith::kernels
