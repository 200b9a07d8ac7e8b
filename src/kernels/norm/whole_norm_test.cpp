// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/whole_norm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/norm/whole_norm_inputs.h"

namespace megalith::kernels {
namespace {

constexpr double kUnit = 0x1p-24;  // one rounding of f32

/// Sizes of what a row's sums add: bounds are multiples of them. As in layer_norm_test.cpp.
struct RowSizes {
  double mean_x = 0, mean_g = 0, mean_product = 0, deviations = 0, rstd = 0, mean = 0;

  RowSizes(const WholeNormInputs& in, const Outputs& saved, int64_t t) {
    const HeadNormInputs& heads = in.heads;
    const auto width = static_cast<double>(in.width());
    if (heads.is_layer()) mean = saved[2].at(t) / width;
    rstd = 1 / std::sqrt(saved[1].at(t) / width + 1e-6);
    for (int64_t h = 0; h < heads.c.num_heads; ++h) {
      for (int64_t d = 0; d < heads.c.head_size; ++d) {
        const double x = heads.x.at(t, heads.column(h, d));
        const double g = std::abs(heads.dy.at(t, heads.column(h, d)) * in.factor(h, d));
        mean_x += std::abs(x) / width;
        mean_g += g / width;
        mean_product += g * std::abs(x - mean) * rstd / width;
        deviations += std::abs(x - mean);
      }
    }
  }
};

void expect_within_bounds(const WholeNormInputs& in, const Outputs& y, const Outputs& saved,
                          const Outputs& dx, const Outputs& expected) {
  const HeadNormInputs& heads = in.heads;
  const auto& c = heads.c;
  const double chain = static_cast<double>(c.num_heads * ceil_div<int64_t>(c.head_size, 16)) + 24;
  const double unit = 2 * testing::unit_roundoff(heads.storage.y);
  std::vector<double> sums(static_cast<size_t>(in.width()), 0.5);
  for (int64_t t = 0; t < c.rows; ++t) {
    const RowSizes row(in, saved, t);
    ASSERT_NEAR(y[1].at(t), saved[1].at(t),
                kUnit * chain * (saved[1].at(t) + 2 * row.mean_x * row.deviations));
    for (int64_t h = 0; h < c.num_heads; ++h) {
      for (int64_t d = 0; d < c.head_size; ++d) {
        const int64_t column = heads.column(h, d);
        const double normalised = std::abs(heads.x.at(t, column) - row.mean) * row.rstd;
        const double dy = std::abs(heads.dy.at(t, column)), want = saved[0].at(t, column);
        const double of_mean = row.rstd * row.mean_x * std::abs(in.factor(h, d));
        ASSERT_NEAR(y[0].at(t, column), want,
                    kUnit * chain * (of_mean + std::abs(want)) + unit * std::abs(want));
        const double of_row =
            dy * std::abs(in.factor(h, d)) + row.mean_g + normalised * row.mean_product;
        const double want_dx = expected[0].at(t, column);
        ASSERT_NEAR(dx[0].at(t, column), want_dx,
                    kUnit * chain * row.rstd * of_row + unit * std::abs(want_dx));
        sums[static_cast<size_t>(h * c.head_size + d)] += dy * normalised;
      }
    }
  }
  testing::expect_close(
      dx[1], expected[1],
      [&](int64_t k) {
        return kUnit * static_cast<double>(c.rows + 4) * sums[static_cast<size_t>(k)];
      },
      "dgamma");
}

TEST(WholeNorm, EqualsTheReferenceWithinItsBound) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kHeadFormulas) {
      for (const HeadStorage& storage : kHeadStorage) {
        const WholeNormInputs in(c, formula, storage);
        SCOPED_TRACE(in.heads.describe());
        const auto forward = [&](Exec& exec) { return in.forward(exec); };
        const Outputs y = testing::run_everywhere(forward, in.heads.describe()),
                      saved = testing::run_reference(forward);
        const auto backward = [&](Exec& exec) { return in.backward(exec, saved); };
        expect_within_bounds(in, y, saved, testing::run_everywhere(backward, in.heads.describe()),
                             testing::run_reference(backward));
      }
    }
  }
}

/// All heads of all rows as a plain matrix.
TestTensor as_whole_rows(const WholeNormInputs& in, const TestTensor& qkv) {
  TestTensor rows(qkv.dtype(), Shape{in.heads.c.rows, in.width()});
  return rows.fill([&](int64_t i) {
    const int64_t t = i / in.width(), h = i % in.width() / in.heads.c.head_size;
    return qkv.at(t, in.heads.column(h, i % in.heads.c.head_size));
  });
}

/// Where heads are whole vectors, or there is one, lanes run as in a plain row.
TEST(WholeNorm, EqualsTheNormOfRowsBitByBit) {
  for (HeadNormCase c : kHeadNormCases) {
    if (c.rows == 0 || (c.num_heads > 1 && c.head_size % 16 != 0)) continue;
    c.partials = 1;
    for (const auto& formula : kHeadFormulas) {
      for (const HeadStorage& storage : kHeadStorage) {
        const WholeNormInputs in(c, formula, storage);
        const auto heads = [&](Exec& exec) {
          const Outputs y = in.forward(exec), dx = in.backward(exec, y);
          return Outputs{as_whole_rows(in, y[0]), as_whole_rows(in, dx[0]), dx[1]};
        };
        const auto rows = [&](Exec& exec) {
          const TestTensor x = as_whole_rows(in, in.heads.x), dy = as_whole_rows(in, in.heads.dy);
          TestTensor y = dy, dx = dy, rstd(DType::f32, Shape{c.rows}), mean = rstd;
          TestTensor dgamma = TestTensor(DType::f32, in.gamma.shape()).fill_constant(0.5);
          const bool layer = in.heads.is_layer();
          layer_norm_forward(exec, {.x_TH = x,
                                    .gamma_H = in.gamma.view().reshape(Shape{in.width()}),
                                    .y_TH = y,
                                    .mean_T = layer ? mean.view() : View(),
                                    .rstd_T = rstd,
                                    .eps = 1e-6f,
                                    .kind = in.heads.kind,
                                    .gamma_offset = in.heads.gamma_offset});
          layer_norm_backward(exec, {.dy_TH = dy,
                                     .x_TH = x,
                                     .gamma_H = in.gamma.view().reshape(Shape{in.width()}),
                                     .mean_T = layer ? mean.view() : View(),
                                     .rstd_T = rstd,
                                     .dx_TH = dx,
                                     .dgamma_PH = dgamma.view().reshape(Shape{1, in.width()}),
                                     .kind = in.heads.kind,
                                     .gamma_offset = in.heads.gamma_offset});
          return Outputs{y, dx, dgamma};
        };
        testing::expect_same_bits(testing::run_everywhere(heads, "heads"),
                                  testing::run_everywhere(rows, "rows"), in.heads.describe());
      }
    }
  }
}

/// Whoever has some of the heads makes the same parts of the sums, whatever lies between them.
TEST(WholeNorm, PartsOfARowAreThoseOfTheWhole) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kHeadFormulas) {
      const WholeNormInputs in(c, formula, kHeadStorage[1]);
      const TestTensor x = as_whole_rows(in, in.heads.x), dy = as_whole_rows(in, in.heads.dy);
      const Outputs saved = testing::run_everywhere([&](Exec& e) { return in.forward(e); }, "y");
      const auto sums = [&](int64_t ranks) {
        return testing::run_everywhere(
            [&](Exec& exec) {
              Outputs all = {in.parts_of_sums(), in.parts_of_sums(), in.parts_of_sums()};
              const int64_t n = c.num_heads / ranks, p = c.partials / ranks;
              for (int64_t r = 0; r < ranks; ++r) {
                const auto own = [&](const ConstView& matrix) {
                  return kernels::heads(matrix.columns(r * n * c.head_size, n * c.head_size), n,
                                        c.head_size);
                };
                RowTotals totals = in.totals(saved);
                whole_norm_sums(exec, {.x_TND = own(x),
                                       .sums_PT = all[0].view().rows(r * p, p),
                                       .squares = true,
                                       .sum_T = totals.sum_T,
                                       .width = totals.width});
                whole_norm_gradient_sums(
                    exec, {.dy_TND = own(dy),
                           .x_TND = own(x),
                           .gamma_ND = in.gamma.view().rows(r * n, n),
                           .sums_PT = in.heads.is_layer() ? all[1].view().rows(r * p, p) : View(),
                           .products_PT = all[2].view().rows(r * p, p),
                           .totals = totals,
                           .gamma_offset = in.heads.gamma_offset});
              }
              if (!in.heads.is_layer()) all[1].fill_constant(0);
              return all;
            },
            "parts");
      };
      testing::expect_same_bits(sums(c.partials), sums(1), in.heads.describe());
    }
  }
}

TEST(WholeNorm, ExactNumbersGiveExactBits) {
  // x = +-a, half of each sign in turn: mean 0, deviation a, x^ = +-1 but for eps.
  for (const auto& formula : kHeadFormulas) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      WholeNormInputs in({9, 4, 2, 32, 2, 1, 1}, formula, {dtype, dtype, dtype});
      in.heads.x.fill([](int64_t i) { return i % 2 == 0 ? 0.5 : -0.5; });
      const auto run = [&](Exec& exec) {
        const Outputs y = in.forward(exec);
        return Outputs{y[1], y[2]};
      };
      testing::expect_same_bits(testing::run_everywhere(run, "exact"), testing::run_reference(run),
                                in.heads.describe());
    }
  }
}

TEST(WholeNorm, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (const auto& formula : kHeadFormulas) {
    WholeNormInputs in({3, 4, 2, 5, 2}, formula, {DType::f64, DType::f64, DType::f64});
    const auto loss = [&] { return testing::weighted_sum(in.forward(exec)[0], in.heads.dy); };
    Outputs gradients = in.backward(exec, in.forward(exec));
    for (int64_t i = 0; i < gradients[1].size(); ++i) gradients[1].set(i, gradients[1].at(i) - 0.5);
    testing::expect_gradient(loss, in.heads.x, gradients[0], 1e-8, "dx");
    testing::expect_gradient(loss, in.gamma, gradients[1], 1e-8, "dgamma");
  }
}

TEST(WholeNorm, SplittingTheRowsIntoCallsKeepsTheBits) {
  const WholeNormInputs in({53, 6, 2, 45, 3, 1}, kHeadFormulas[1], kHeadStorage[1]);
  const auto split = [&](int64_t rows) {
    return testing::run_everywhere(
        [&](Exec& exec) { return in.backward(exec, in.forward(exec), rows); }, "split");
  };
  const Outputs whole = split(1000);
  for (const int64_t rows : {1, 7, 50}) testing::expect_same_bits(split(rows), whole, "calls");
}

TEST(WholeNorm, WorksInPlaceAndLeavesOtherHeadsAlone) {
  const WholeNormInputs in({41, 4, 2, 37, 4, 1, 1}, kHeadFormulas[1], kHeadStorage[0]);
  const Outputs saved = testing::run_everywhere([&](Exec& e) { return in.forward(e); }, "y");
  const auto in_place = [&](Exec& exec) {
    TestTensor y = in.heads.x;
    whole_norm_forward(exec, {.x_TND = in.heads_of(ConstView(y.view())),
                              .gamma_ND = in.gamma,
                              .y_TND = in.heads_of(y.view()),
                              .totals = in.totals(saved),
                              .gamma_offset = 1});
    return Outputs{y};
  };
  TestTensor expected = in.heads.x;
  for (int64_t t = 0; t < in.heads.c.rows; ++t) {
    for (int64_t i = 0; i < in.width(); ++i) {
      const int64_t column = in.heads.column(i / in.heads.c.head_size, i % in.heads.c.head_size);
      expected.set(t, column, saved[0].at(t, column));
    }
  }
  testing::expect_same_bits(testing::run_everywhere(in_place, "in place"), {expected}, "in place");
}

TEST(WholeNorm, WrongShapesAreRefusedAndBytesCounted) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const HeadNormCase c = {3, 4, 2, 8, 2};
  WholeNormInputs in(c, kHeadFormulas[1], kHeadStorage[1]);
  const Outputs saved = in.forward(exec);
  EXPECT_THROW(WholeNormInputs({3, 4, 2, 8, 3}, kHeadFormulas[1], kHeadStorage[1]).forward(exec),
               InternalError);
  in.gamma = TestTensor(DType::f32, Shape{4, 7});
  EXPECT_THROW(in.backward(exec, saved), InternalError);
  in = WholeNormInputs(c, kHeadFormulas[1], kHeadStorage[1]);
  TestTensor dgamma(DType::f32, Shape{4, 8});
  const auto work = testing::traced_work(
      [&](Exec& e) {
        whole_norm_weight_gradient(e, {.dy_TND = in.heads_of(in.heads.dy.view()),
                                       .x_TND = in.heads_of(in.heads.x.view()),
                                       .dgamma_ND = dgamma,
                                       .totals = in.totals(saved)});
      },
      "whole_norm_weight_gradient");
  EXPECT_EQ(work.bytes_read, 2 * (3 * 32 * 2) + 3 * 4 + 32 * 4);
  EXPECT_EQ(work.bytes_written, 32 * 4);
}

}  // namespace
}  // namespace megalith::kernels
