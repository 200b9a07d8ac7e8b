// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adamw.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr int64_t kSizes[] = {0, 1, 7, 16, 33, 1000, 20011};

AdamW recipe(int64_t step) {
  AdamW a;
  a.lr = 3e-3;
  a.weight_decay = 0.1;
  a.step = step;
  return a;
}

/// Five steps from the same start with gradients drawn per step; w, m, v and the compute copy.
Outputs five_steps(Exec& exec, int64_t n, DType dtype, DType compute_type, double gradient_size) {
  TestTensor w = TestTensor(dtype, Shape{n}, 0, 1).fill_normal(1), m(dtype, Shape{n}, 0, 3),
             v(dtype, Shape{n});
  TestTensor compute(compute_type, Shape{n}, 0, 5), scale(DType::f32, Shape{1});
  m.fill_constant(0);
  v.fill_constant(0);
  scale.set(0, 0.75);
  for (int64_t step = 1; step <= 5; ++step) {
    const TestTensor g =
        TestTensor(dtype, Shape{n}).fill_normal(10 + static_cast<uint64_t>(step), gradient_size);
    AdamW a = recipe(step);
    a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g, a.gradient_scale = scale, a.compute_N = compute;
    adamw(exec, a);
  }
  return {w, m, v, compute};
}

TEST(AdamW, EqualsTheReferenceOverFiveSteps) {
  for (const int64_t n : kSizes) {
    for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
      const auto run = [&](Exec& exec) { return five_steps(exec, n, DType::f32, compute, 1); };
      const Outputs actual = testing::run_everywhere(run, fmt::format("{}", n));
      // The double reference rounds w, m and v to f32 after each step, as the kernel does, so each
      // step adds a few roundings: of w, and of a step of at most about lr (1 - beta1) / sqrt(1 -
      // beta2) ~ 1.
      const Outputs expected = testing::run_reference(run);
      const double unit = 0x1p-24;
      testing::expect_close(
          actual[0], expected[0],
          [&](int64_t i) { return 5 * 2 * unit * (std::abs(expected[0].at(i)) + 0.1); }, "w");
      testing::expect_close(
          actual[1], expected[1],
          [&](int64_t i) { return 5 * 4 * unit * (std::abs(expected[1].at(i)) + 1); }, "m");
      testing::expect_close(
          actual[2], expected[2], [&](int64_t i) { return 5 * 5 * unit * expected[2].at(i); }, "v");
      for (int64_t i = 0; i < n; ++i) {
        TestTensor rounded(compute, Shape{1});
        rounded.set(0, actual[0].at(i));
        ASSERT_EQ(actual[3].at(i), rounded.at(0)) << "the copy is w, rounded once";
      }
    }
  }
}

TEST(AdamW, EqualsPlainLoopsOfTheStatedOperationsBitByBit) {
  const int64_t n = 100;
  const Outputs actual = testing::run_everywhere(
      [&](Exec& e) { return five_steps(e, n, DType::f32, DType::f32, 1e-3); }, "bits");
  double power1 = 1, power2 = 1;
  std::vector<float> w(100), m(100), v(100);
  for (size_t i = 0; i < 100; ++i) w[i] = static_cast<float>(normal(1, i));
  for (int64_t step = 1; step <= 5; ++step) {
    power1 *= 0.9;
    power2 *= 0.95;
    const auto decay = static_cast<float>(1 - 3e-3 * 0.1),
               step_size = static_cast<float>(3e-3 / (1 - power1));
    const auto root = static_cast<float>(std::sqrt(1 - power2));
    for (size_t i = 0; i < 100; ++i) {
      const auto gradient = static_cast<float>(1e-3 * normal(10 + static_cast<uint64_t>(step), i));
      const float g = 0.75f * gradient;
      m[i] = std::fma(static_cast<float>(1 - 0.9), g - m[i], m[i]);
      v[i] = std::fma(static_cast<float>(1 - 0.95), std::fma(g, g, -v[i]), v[i]);
      const float denominator = std::sqrt(v[i]) / root + 1e-8f;
      w[i] = std::fma(-step_size, m[i] / denominator, decay * w[i]);
    }
  }
  // beta^step by repeated squaring may differ from the running product in its last bit, which the
  // rounding to f32 hides here.
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(static_cast<float>(actual[0].at(i)), w[static_cast<size_t>(i)]) << i;
    ASSERT_EQ(static_cast<float>(actual[1].at(i)), m[static_cast<size_t>(i)]) << i;
    ASSERT_EQ(static_cast<float>(actual[2].at(i)), v[static_cast<size_t>(i)]) << i;
  }
}

TEST(AdamW, ExactNumbersGiveExactBits) {
  // beta 0.5 and 0.75 with step 1: bias corrections 0.5 and 0.25; g = +-2^k: m = g/2, v = g^2/4,
  // sqrt(v)/0.5 = |g|, so the step is lr/0.5 * (g/2)/|g| = +-lr.
  const auto run = [](Exec& exec) {
    TestTensor w(DType::f32, Shape{40}), m(DType::f32, Shape{40}), v(DType::f32, Shape{40}),
        g(DType::f32, Shape{40});
    w.fill_integers(1, -8, 8);
    m.fill_constant(0), v.fill_constant(0);
    g.fill(
        [](int64_t i) { return (i % 2 == 0 ? 1 : -1) * std::ldexp(1.0, static_cast<int>(i % 7)); });
    AdamW a;
    a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g;
    a.lr = 0.25, a.beta1 = 0.5, a.beta2 = 0.75, a.eps = 0, a.weight_decay = 2;
    adamw(exec, a);
    return Outputs{w, m, v};
  };
  const Outputs actual = testing::run_everywhere(run, "exact");
  testing::expect_same_bits(actual, testing::run_reference(run), "exact");
  const TestTensor w = TestTensor(DType::f32, Shape{40}).fill_integers(1, -8, 8);
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(actual[0].at(i), 0.5 * w.at(i) - (i % 2 == 0 ? 0.25 : -0.25));
}

/// Over a thousand steps the second moment in f32 differs from f64's by roundings alone: each is at
/// most half an ulp, as often up as down, so they sum to about sqrt(1000) of it. Weights of the
/// moment and the gradient that do not sum to 1 would add up in one direction.
TEST(AdamW, AThousandStepsAddUpNoBias) {
  const int64_t n = 500, steps = 1000;
  TestTensor w(DType::f32, Shape{n}), m(DType::f32, Shape{n}), v(DType::f32, Shape{n});
  w.fill_constant(0), m.fill_constant(0), v.fill_constant(0);
  std::vector<double> exact_m(n), exact_v(n);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (int64_t step = 1; step <= steps; ++step) {
    const TestTensor g =
        TestTensor(DType::f32, Shape{n}).fill_normal(static_cast<uint64_t>(step), 1e-2);
    AdamW a = recipe(step);
    a.beta2 = 0.999;
    a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g;
    adamw(exec, a);
    for (int64_t i = 0; i < n; ++i) {
      double &first = exact_m[static_cast<size_t>(i)], &second = exact_v[static_cast<size_t>(i)];
      first += (1 - 0.9) * (g.at(i) - first);
      second += (1 - 0.999) * (g.at(i) * g.at(i) - second);
    }
  }
  double first = 0, second = 0;  // mean relative errors
  for (int64_t i = 0; i < n; ++i) {
    const double root = std::sqrt(exact_v[static_cast<size_t>(i)]);
    first += (m.at(i) - exact_m[static_cast<size_t>(i)]) / root / n;
    second += v.at(i) / exact_v[static_cast<size_t>(i)] / n - 1.0 / n;
  }
  EXPECT_NEAR(first, 0, 0x1p-24);
  EXPECT_NEAR(second, 0, 0x1p-24 * std::sqrt(steps));
}

TEST(AdamW, BetasOfZeroLeaveTheGradientAlone) {
  const TestTensor g = TestTensor(DType::f32, Shape{50}).fill_normal(3, 1e-4),
                   old = TestTensor(DType::f32, Shape{50}).fill_constant(1);
  const auto run = [&](Exec& exec) {
    TestTensor w = old, m = old, v = old;
    AdamW a = recipe(9);
    a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g;
    a.beta1 = a.beta2 = 0;
    adamw(exec, a);
    return Outputs{m, v};
  };
  const Outputs actual = testing::run_everywhere(run, "zero");
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(actual[0].at(i), g.at(i)) << i;
    EXPECT_EQ(actual[1].at(i), static_cast<float>(g.at(i) * g.at(i))) << i;
  }
}

TEST(AdamW, RangesUpdateAsTheWhole) {
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor g = TestTensor(DType::f32, Shape{1003}).fill_normal(2),
             m = TestTensor(DType::f32, Shape{1003}).fill_normal(3);
  TestTensor v(DType::f32, Shape{1003});
  v.fill([&](int64_t i) { return m.at(i) * m.at(i); });
  TestTensor w = TestTensor(DType::f32, Shape{1003}).fill_normal(1), w2 = w, m2 = m, v2 = v;
  AdamW a = recipe(7);
  a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g;
  adamw(exec, a);
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 5}, {5, 500}, {505, 498}}) {
    AdamW part = recipe(7);
    part.w_N = w2.view().rows(begin, count), part.m_N = m2.view().rows(begin, count);
    part.v_N = v2.view().rows(begin, count), part.g_N = g.view().rows(begin, count);
    adamw(exec, part);
  }
  testing::expect_same_bits({w2, m2, v2}, {w, m, v}, "ranges");
}

TEST(AdamW, ASkippedStepLeavesEverythingAsItIs) {
  TestTensor apply(DType::i32, Shape{1});
  apply.set(0, 0);
  const TestTensor w0 = TestTensor(DType::f32, Shape{77}).fill_normal(1),
                   g = TestTensor(DType::f32, Shape{77}).fill_constant(NAN),
                   c0 = TestTensor(DType::bf16, Shape{77}).fill_constant(5);
  const auto run = [&](Exec& exec) {
    TestTensor w = w0, m = w0, v = w0, compute = c0;
    AdamW a = recipe(3);
    a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g, a.apply = apply, a.compute_N = compute;
    adamw(exec, a);
    return Outputs{w, m, v, compute};
  };
  const Outputs actual = testing::run_everywhere(run, "skipped");
  testing::expect_same_bits(actual, {w0, w0, w0, c0}, "skipped");
  testing::expect_same_bits(testing::run_reference(run), actual, "skipped");
}

/// A number of each kind that is not finite, in each place of what the step reads, and a copy whose
/// rounding overflows.
TEST(AdamW, SaysWhetherAllItWroteIsFinite) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  for (const int64_t n : {1, 16, 33, 10007}) {
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      for (const int which : {-1, 0, 1, 2, 3, 4}) {  // nothing; w, m, v, g; w to bf16
        for (const double wrong : {double{INFINITY}, double{NAN}}) {
          TestTensor state[4] = {TestTensor(DType::f32, Shape{n}).fill_normal(1),
                                 TestTensor(DType::f32, Shape{n}).fill_normal(2),
                                 TestTensor(DType::f32, Shape{n}).fill_constant(1),
                                 TestTensor(DType::f32, Shape{n}).fill_normal(3)};
          if (which == 4) {
            state[0].set(at, kHuge);
          } else if (which >= 0) {
            state[which].set(at, wrong);
          }
          const auto run = [&](Exec& exec) {
            TestTensor w = state[0], m = state[1], v = state[2], compute(DType::bf16, Shape{n}),
                       finite(DType::i32, Shape{1});
            finite.set(0, 7);
            AdamW a = recipe(1);
            a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = state[3], a.compute_N = compute;
            a.finite = finite, a.weight_decay = 0;
            adamw(exec, a);
            return Outputs{finite};
          };
          const int expected = which < 0 ? 1 : 0;
          EXPECT_EQ(testing::run_everywhere(run, "finite")[0].at(0), expected) << n << " " << which;
          EXPECT_EQ(testing::run_reference(run)[0].at(0), expected) << n << " " << which;
        }
      }
    }
  }
}

TEST(AdamW, RefusesStepZero) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor w(DType::f32, Shape{4});
  AdamW a = recipe(0);
  a.w_N = w, a.m_N = w, a.v_N = w, a.g_N = w;
  EXPECT_THROW(adamw(exec, a), InternalError);
}

TEST(ClipFactor, IsTorchs) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor total(DType::f64, Shape{1}), factor(DType::f32, Shape{1}), norm(DType::f64, Shape{1});
  const auto clip = [&](double sum, double max_norm) {
    total.set(0, sum);
    clip_factor(exec, {total, max_norm, factor, norm});
    return factor.at(0);
  };
  EXPECT_EQ(clip(16, 1), static_cast<double>(static_cast<float>(1 / (4 + 1e-6))));
  EXPECT_EQ(norm.at(0), 4);
  EXPECT_EQ(clip(0.25, 1), 1);
  EXPECT_EQ(clip(0, 1), 1);
  EXPECT_EQ(clip(1e30, std::numeric_limits<double>::infinity()), 1);
  EXPECT_TRUE(std::isnan(clip(NAN, 1)));
  EXPECT_TRUE(std::isnan(norm.at(0)));
  EXPECT_EQ(clip(INFINITY, 1), 0);
}

TEST(AdamW, TraceCountsBytes) {
  TestTensor w(DType::f32, Shape{8}), compute(DType::bf16, Shape{8});
  AdamW a = recipe(1);
  a.w_N = w, a.m_N = w, a.v_N = w, a.g_N = w, a.compute_N = compute;
  const auto work = testing::traced_work([&](Exec& e) { adamw(e, a); }, "adamw");
  EXPECT_EQ(work.bytes_read, 4 * 32);
  EXPECT_EQ(work.bytes_written, 3 * 32 + 16);
}

}  // namespace
}  // namespace megalith::kernels
