// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/bottleneck.h"

#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr int64_t kRows = 23, kHidden = 40, kSize = 7;

struct Numbers {
  explicit Numbers(DType dtype)
      : down(dtype, Shape{kSize, kHidden}),
        down_bias(dtype, Shape{kSize}),
        up(dtype, Shape{kHidden, kSize}),
        up_bias(dtype, Shape{kHidden}) {
    down.fill_normal(1, 0.2);
    down_bias.fill_normal(2);
    up.fill_normal(3, 0.5);
    up_bias.fill_normal(4);
  }
  Bottleneck views() const { return {down.view(), down_bias.view(), up.view(), up_bias.view()}; }
  TestTensor down, down_bias, up, up_bias;
};

Outputs forward(Exec& exec, const Numbers& numbers, const TestTensor& x, int64_t rows_per_call) {
  TestTensor y = x;
  for (int64_t t = 0; t < kRows; t += rows_per_call) {
    const int64_t count = std::min(rows_per_call, kRows - t);
    bottleneck_forward(exec, numbers.views(), y.view().rows(t, count));
  }
  return {y};
}

// The formula in double precision, and no bit from how rows are spread over calls.
TEST(Bottleneck, IsTheFormulaRowByRow) {
  const Numbers numbers(DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TestTensor x = TestTensor(dtype, Shape{kRows, kHidden}, 2, 1).fill_normal(5);
    const auto run = [&](int64_t rows) {
      return testing::run_everywhere([&](Exec& exec) { return forward(exec, numbers, x, rows); },
                                     "bottleneck");
    };
    const Outputs whole = run(kRows);
    for (const int64_t rows : {1, 5}) testing::expect_same_bits(run(rows), whole, "calls");
    for (int64_t t = 0; t < kRows; ++t) {
      double a[kSize], error[kSize];
      for (int64_t r = 0; r < kSize; ++r) {
        double u = numbers.down_bias.at(r), size = std::abs(u);
        for (int64_t h = 0; h < kHidden; ++h) {
          u += x.at(t, h) * numbers.down.at(r, h);
          size += std::abs(x.at(t, h) * numbers.down.at(r, h));
        }
        a[r] = u / (1 + std::exp(-u));
        // A chain and the bias, times the largest slope; the activation's own few roundings.
        error[r] = 0x1p-24 * (1.1 * (kHidden + 1) * size + 8 * std::abs(a[r]));
      }
      for (int64_t h = 0; h < kHidden; ++h) {
        double y = x.at(t, h) + numbers.up_bias.at(h), size = std::abs(numbers.up_bias.at(h));
        double bound = 0;
        for (int64_t r = 0; r < kSize; ++r) {
          y += a[r] * numbers.up.at(h, r);
          size += std::abs(a[r] * numbers.up.at(h, r));
          bound += error[r] * std::abs(numbers.up.at(h, r));
        }
        bound += 0x1p-24 * (kSize + 2) * size + 1.01 * testing::unit_roundoff(dtype) * std::abs(y);
        ASSERT_NEAR(whole[0].at(t, h), y, 1.01 * bound) << t << " " << h;
      }
    }
  }
}

TEST(Bottleneck, GradientsAreDifferences) {
  Numbers numbers(DType::f64);
  TestTensor x = TestTensor(DType::f64, Shape{kRows, kHidden}).fill_normal(5);
  const TestTensor dy = TestTensor(DType::f64, Shape{kRows, kHidden}).fill_normal(6);
  TestTensor dx(DType::f64, Shape{kRows, kHidden});
  Numbers gradients(DType::f64);
  for (TestTensor* of : {&gradients.down, &gradients.down_bias, &gradients.up, &gradients.up_bias})
    of->fill_constant(0);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  bottleneck_backward(exec, {.adapter = numbers.views(),
                             .x_TH = x,
                             .dy_TH = dy,
                             .dx_TH = dx,
                             .down_gradient_RH = gradients.down,
                             .down_bias_gradient_R = gradients.down_bias,
                             .up_gradient_HR = gradients.up,
                             .up_bias_gradient_H = gradients.up_bias});
  const auto loss = [&] { return testing::weighted_sum(forward(exec, numbers, x, kRows)[0], dy); };
  testing::expect_gradient(loss, x, dx, 1e-8, "x");
  testing::expect_gradient(loss, numbers.down, gradients.down, 1e-8, "down");
  testing::expect_gradient(loss, numbers.down_bias, gradients.down_bias, 1e-8, "down bias");
  testing::expect_gradient(loss, numbers.up, gradients.up, 1e-8, "up");
  testing::expect_gradient(loss, numbers.up_bias, gradients.up_bias, 1e-8, "up bias");
}

// Chains go on from what is there: micro-batches change no bit.
TEST(Bottleneck, GradientsAddUpRowByRow) {
  const Numbers numbers(DType::f32);
  const TestTensor x = TestTensor(DType::bf16, Shape{kRows, kHidden}).fill_normal(5),
                   dy = TestTensor(DType::bf16, Shape{kRows, kHidden}).fill_normal(6);
  const auto run = [&](int64_t rows_per_call) {
    return testing::run_everywhere(
        [&](Exec& exec) {
          Numbers gradients(DType::f32);
          TestTensor dx(DType::bf16, Shape{kRows, kHidden});
          for (int64_t t = 0; t < kRows; t += rows_per_call) {
            const int64_t count = std::min(rows_per_call, kRows - t);
            bottleneck_backward(exec, {.adapter = numbers.views(),
                                       .x_TH = x.view().rows(t, count),
                                       .dy_TH = dy.view().rows(t, count),
                                       .dx_TH = dx.view().rows(t, count),
                                       .down_gradient_RH = gradients.down,
                                       .down_bias_gradient_R = gradients.down_bias,
                                       .up_gradient_HR = gradients.up,
                                       .up_bias_gradient_H = gradients.up_bias});
          }
          return Outputs{dx, gradients.down, gradients.down_bias, gradients.up, gradients.up_bias};
        },
        "bottleneck_backward");
  };
  const Outputs whole = run(kRows);
  for (const int64_t rows : {1, 6}) testing::expect_same_bits(run(rows), whole, "calls");
}

}  // namespace
}  // namespace megalith::kernels
