// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/head_norm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/norm/head_norm_inputs.h"

namespace megalith::kernels {
namespace {

constexpr double kUnit = 0x1p-24;  // one rounding of f32
/// Sizes of what one head's sums add: bounds are multiples of them. As in layer_norm_test.cpp.
struct HeadSizes {
  double mean_x = 0, mean_g = 0, mean_product = 0;
  std::vector<double> g, normalised, dy_normalised;

  HeadSizes(const HeadNormInputs& in, const Outputs& saved, int64_t t, int64_t h) {
    const auto size = static_cast<double>(in.c.head_size);
    for (int64_t d = 0; d < in.c.head_size; ++d) {
      const int64_t column = in.column(h, d);
      const double x = in.x.at(t, column), dy = in.dy.at(t, column);
      g.push_back(std::abs(dy * in.factor(d)));
      normalised.push_back(std::abs((x - saved[2].at(t, h)) * saved[1].at(t, h)));
      dy_normalised.push_back(std::abs(dy) * normalised.back());
      mean_x += std::abs(x) / size;
      mean_g += g.back() / size;
      mean_product += g.back() * normalised.back() / size;
    }
  }
};

void expect_within_bounds(const HeadNormInputs& in, const Outputs& y, const Outputs& saved,
                          const Outputs& dx, const Outputs& expected_dx) {
  const double chain = static_cast<double>(in.c.head_size) / 16 + 24;
  const double unit = 2 * testing::unit_roundoff(in.storage.y);
  std::vector<double> sums(static_cast<size_t>(in.c.partials * in.c.head_size), 0.5);
  for (int64_t t = 0; t < in.c.rows; ++t) {
    for (int64_t h = 0; h < in.c.num_heads; ++h) {
      const HeadSizes sizes(in, saved, t, h);
      const double rstd = saved[1].at(t, h);
      const int64_t partial = h / (in.c.num_heads / in.c.partials);
      for (int64_t d = 0; d < in.c.head_size; ++d) {
        const auto k = static_cast<size_t>(d);
        const double want = saved[0].at(t, in.column(h, d));
        const double want_dx = expected_dx[0].at(t, in.column(h, d));
        const double of_mean = rstd * sizes.mean_x * std::abs(in.factor(d));
        const double of_row = sizes.g[k] + sizes.mean_g + sizes.normalised[k] * sizes.mean_product;
        ASSERT_NEAR(y[0].at(t, in.column(h, d)), want,
                    kUnit * chain * (of_mean + std::abs(want)) + unit * std::abs(want));
        ASSERT_NEAR(dx[0].at(t, in.column(h, d)), want_dx,
                    kUnit * chain * rstd * of_row + unit * std::abs(want_dx));
        sums[static_cast<size_t>(partial * in.c.head_size + d)] += sizes.dy_normalised[k];
      }
      ASSERT_NEAR(y[1].at(t, h), rstd, kUnit * chain * rstd);
    }
  }
  const double length = static_cast<double>(in.c.rows * in.c.num_heads + 4);
  testing::expect_close(
      dx[1], expected_dx[1],
      [&](int64_t k) { return kUnit * length * sums[static_cast<size_t>(k)]; }, "dgamma");
}

TEST(HeadNorm, EqualsTheReferenceWithinItsBound) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kHeadFormulas) {
      for (const HeadStorage& storage : kHeadStorage) {
        SCOPED_TRACE(fmt::format("{}x{}x{} {}", c.rows, c.num_heads, c.head_size, storage.x));
        const HeadNormInputs in(c, formula, storage);
        const auto forward = [&](Exec& exec) { return in.forward(exec); };
        const Outputs y = testing::run_everywhere(forward, in.describe()),
                      saved = testing::run_reference(forward);
        const auto backward = [&](Exec& exec) { return in.backward(exec, saved); };
        expect_within_bounds(in, y, saved, testing::run_everywhere(backward, in.describe()),
                             testing::run_reference(backward));
      }
    }
  }
}

TEST(HeadNorm, EqualsTheNormOfRowsBitByBit) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kHeadFormulas) {
      for (const HeadStorage& storage : kHeadStorage) {
        const HeadNormInputs in(c, formula, storage);
        const auto heads = [&](Exec& exec) {
          const Outputs y = in.forward(exec), dx = in.backward(exec, y);
          return Outputs{as_rows(in, y[0]), y[1], as_rows(in, dx[0]), dx[1]};
        };
        const auto rows = [&](Exec& exec) {
          const TestTensor x = as_rows(in, in.x), dy = as_rows(in, in.dy);
          TestTensor y = dy, dx = dy, rstd(DType::f32, Shape{x.rows()}), mean = rstd;
          TestTensor dgamma(DType::f32, Shape{c.partials, c.head_size});
          dgamma.fill_constant(0.5);
          layer_norm_forward(exec, {.x_TH = x,
                                    .gamma_H = in.gamma,
                                    .y_TH = y,
                                    .mean_T = in.is_layer() ? mean.view() : View(),
                                    .rstd_T = rstd,
                                    .eps = 1e-6f,
                                    .kind = in.kind,
                                    .gamma_offset = in.gamma_offset});
          layer_norm_backward(exec, {.dy_TH = dy,
                                     .x_TH = x,
                                     .gamma_H = in.gamma,
                                     .mean_T = in.is_layer() ? mean.view() : View(),
                                     .rstd_T = rstd,
                                     .dx_TH = dx,
                                     .dgamma_PH = dgamma,
                                     .shards = {.rows_per_shard = c.num_heads / c.partials,
                                                .count = static_cast<int>(c.partials)},
                                     .kind = in.kind,
                                     .gamma_offset = in.gamma_offset});
          return Outputs{y, rstd, dx, dgamma};
        };
        testing::expect_same_bits(testing::run_everywhere(heads, "heads"),
                                  testing::run_everywhere(rows, "rows"), in.describe());
      }
    }
  }
}

TEST(HeadNorm, ExactNumbersGiveExactBits) {
  // x = +-a, half of each sign in turn: mean 0, deviation a, x^ = +-1.
  for (const auto& formula : kHeadFormulas) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      HeadNormInputs in({9, 4, 2, 32, 2, 1, 1}, formula, {dtype, dtype, dtype});
      in.x.fill([](int64_t i) { return i % 2 == 0 ? 0.5 : -0.5; });
      in.gamma.fill_integers(1, -2, 2);
      in.dy.fill_integers(2, -2, 2);
      const auto run = [&](Exec& exec) {
        Outputs outputs = in.forward(exec, 0.0f);
        for (const TestTensor& gradient : in.backward(exec, outputs)) outputs.push_back(gradient);
        return outputs;
      };
      const Outputs actual = testing::run_everywhere(run, "exact"),
                    expected = testing::run_reference(run);
      for (size_t k = 0; k < actual.size(); ++k)
        testing::expect_close(actual[k], expected[k], 0, in.describe());
    }
  }
}

TEST(HeadNorm, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (const auto& formula : kHeadFormulas) {
    HeadNormInputs in({3, 4, 2, 5, 1}, formula, {DType::f64, DType::f64, DType::f64});
    const auto loss = [&] { return testing::weighted_sum(in.forward(exec)[0], in.dy); };
    Outputs gradients = in.backward(exec, in.forward(exec));
    for (int64_t d = 0; d < 5; ++d) gradients[1].set(d, gradients[1].at(d) - 0.5);
    testing::expect_gradient(loss, in.x, gradients[0], 1e-8, "dx");
    testing::expect_gradient(loss, in.gamma, gradients[1], 1e-8, "dgamma");
  }
}

TEST(HeadNorm, SplittingTheRowsIntoCallsKeepsTheBits) {
  const HeadNormInputs in({53, 6, 2, 45, 3, 1}, kHeadFormulas[1], kHeadStorage[1]);
  const auto split = [&](int64_t rows) {
    return testing::run_everywhere(
        [&](Exec& exec) { return in.backward(exec, in.forward(exec), rows); }, "split");
  };
  const Outputs whole = split(1000);
  for (const int64_t rows : {1, 7, 50}) testing::expect_same_bits(split(rows), whole, "calls");
}

TEST(HeadNorm, WorksInPlaceAndLeavesOtherHeadsAlone) {
  const HeadNormInputs in({41, 4, 2, 37, 4, 1, 1}, kHeadFormulas[1], kHeadStorage[0]);
  const auto in_place = [&](Exec& exec) {
    TestTensor y = in.x, dx = in.dy, dgamma(DType::f32, Shape{4, 37});
    dgamma.fill_constant(0.5);
    const Outputs saved = in.forward(exec);
    head_norm_forward(exec, {.x_TND = in.heads_of(y.view()),
                             .gamma_D = in.gamma,
                             .y_TND = in.heads_of(y.view()),
                             .gamma_offset = 1});
    head_norm_backward(exec, {.dy_TND = in.heads_of(dx.view()),
                              .x_TND = in.heads_of(in.x.view()),
                              .gamma_D = in.gamma,
                              .rstd_TN = saved[1],
                              .dx_TND = in.heads_of(dx.view()),
                              .dgamma_PD = dgamma,
                              .gamma_offset = 1});
    return Outputs{y, dx, dgamma};
  };
  const auto apart = [&](Exec& exec) {
    const Outputs saved = in.forward(exec), gradients = in.backward(exec, saved);
    TestTensor y = in.x, dx = in.dy;
    for (int64_t t = 0; t < in.c.rows; ++t) {
      for (int64_t h = 0; h < in.c.num_heads; ++h) {
        for (int64_t d = 0; d < in.c.head_size; ++d) {
          const int64_t column = in.column(h, d);
          y.set(t, column, saved[0].at(t, column));
          dx.set(t, column, gradients[0].at(t, column));
        }
      }
    }
    return Outputs{y, dx, gradients[1]};
  };
  testing::expect_same_bits(testing::run_everywhere(in_place, "in place"),
                            testing::run_everywhere(apart, "apart"), "in place");
}

TEST(HeadNorm, WrongShapesAreRefusedAndBytesCounted) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const HeadNormCase c = {3, 4, 2, 8, 2};
  HeadNormInputs in(c, kHeadFormulas[1], kHeadStorage[1]);
  const Outputs saved = in.forward(exec);
  EXPECT_THROW(
      HeadNormInputs({3, 4, 2, 8, 3}, kHeadFormulas[1], kHeadStorage[1]).backward(exec, saved),
      InternalError);
  in.gamma = TestTensor(DType::f32, Shape{7});
  EXPECT_THROW(in.forward(exec), InternalError);
  in = HeadNormInputs(c, kHeadFormulas[1], kHeadStorage[1]);
  const auto work =
      testing::traced_work([&](Exec& e) { in.backward(e, saved); }, "head_norm_backward");
  EXPECT_EQ(work.bytes_read, 2 * (3 * 32 * 2) + 8 * 4 + 12 * 4 + 16 * 4);
  EXPECT_EQ(work.bytes_written, 3 * 32 * 2 + 16 * 4);
}

}  // namespace
}  // namespace megalith::kernels
