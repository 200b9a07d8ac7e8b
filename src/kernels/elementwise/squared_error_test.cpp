// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/squared_error.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

struct ErrorCase {
  int64_t rows, outputs;
};
constexpr ErrorCase kErrorCases[] = {{0, 3}, {1, 1}, {5, 1}, {7, 3}, {13, 71}};

Outputs losses(Exec& exec, const TestTensor& y, const TestTensor& targets) {
  TestTensor loss(y.dtype(), Shape{y.rows()});
  squared_error(exec, {y, targets, loss});
  return {loss};
}
Outputs gradients(Exec& exec, const TestTensor& y, const TestTensor& targets,
                  const TestTensor& weight) {
  TestTensor dy(y.dtype(), y.shape());
  squared_error_gradient(exec, {y, targets, weight, 0.25f, dy});
  return {dy};
}

/// A term has three roundings (the difference twice over, the square), the chain one an addition,
/// the quotient one: of non-negative terms, so the relative error is at most their number.
TEST(SquaredError, IsTheReferenceWithinItsBound) {
  for (const ErrorCase& c : kErrorCases) {
    const Shape shape{c.rows, c.outputs};
    const TestTensor y = TestTensor(DType::f32, shape).fill_normal(1),
                     targets = TestTensor(DType::f32, shape).fill_normal(2),
                     weight = TestTensor(DType::f32, Shape{c.rows}).fill_integers(3, 0, 2);
    const auto loss = [&](Exec& exec) { return losses(exec, y, targets); };
    const auto gradient = [&](Exec& exec) { return gradients(exec, y, targets, weight); };
    const Outputs expected_loss = testing::run_reference(loss),
                  expected = testing::run_reference(gradient);
    const double terms = static_cast<double>(c.outputs) + 4;
    testing::expect_close(
        testing::run_everywhere(loss, "loss")[0], expected_loss[0],
        [&](int64_t i) { return 1.01 * terms * 0x1p-24 * expected_loss[0].at(i); }, "loss");
    testing::expect_close(
        testing::run_everywhere(gradient, "gradient")[0], expected[0],
        [&](int64_t i) { return 5.01 * 0x1p-24 * std::abs(expected[0].at(i)); }, "gradient");
  }
}

TEST(SquaredError, OfExactNumbersIsExact) {
  const Shape shape{37, 4};
  const TestTensor y = TestTensor(DType::f32, shape).fill_integers(1, -50, 50),
                   targets = TestTensor(DType::f32, shape).fill_integers(2, -50, 50),
                   weight = TestTensor(DType::f32, Shape{37}).fill_integers(3, 0, 2);
  const auto loss = [&](Exec& exec) { return losses(exec, y, targets); };
  const auto gradient = [&](Exec& exec) { return gradients(exec, y, targets, weight); };
  testing::expect_same_bits(testing::run_everywhere(loss, "loss"), testing::run_reference(loss),
                            "loss");
  const Outputs dy = testing::run_everywhere(gradient, "gradient");
  for (int64_t i = 0; i < dy[0].size(); ++i)
    EXPECT_EQ(dy[0].at(i), 0.125 * weight.at(i / 4) * (y.at(i) - targets.at(i)));
}

TEST(SquaredError, GradientMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor y = TestTensor(DType::f64, Shape{5, 3}).fill_normal(1);
  const TestTensor targets = TestTensor(DType::f32, Shape{5, 3}).fill_normal(2),
                   weight = TestTensor(DType::f32, Shape{5}).fill_integers(3, 0, 2);
  const auto value = [&] {
    return 0.25 * testing::weighted_sum(losses(exec, y, targets)[0], weight);
  };
  testing::expect_gradient(value, y, gradients(exec, y, targets, weight)[0], 1e-9, "y");
}

TEST(SquaredError, ARowOfWeightZeroSendsNothingBack) {
  TestTensor y(DType::f32, Shape{2, 3}), weight(DType::f32, Shape{2});
  y.fill_constant(std::numeric_limits<double>::infinity());
  weight.fill_constant(0);
  const TestTensor targets = TestTensor(DType::f32, Shape{2, 3}).fill_constant(1);
  for (const TestTensor& dy : testing::run_everywhere(
           [&](Exec& exec) { return gradients(exec, y, targets, weight); }, "masked")) {
    for (int64_t i = 0; i < dy.size(); ++i) EXPECT_EQ(dy.at(i), 0);
  }
}

TEST(SquaredError, RefusesWhatDoesNotFit) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const TestTensor y(DType::f32, Shape{2, 3}), wide(DType::f32, Shape{2, 4}),
      narrow(DType::bf16, Shape{2, 3});
  EXPECT_THROW(losses(exec, y, wide), InternalError);
  EXPECT_THROW(losses(exec, narrow, y), InternalError);
  EXPECT_THROW(gradients(exec, y, y, TestTensor(DType::f32, Shape{3})), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
