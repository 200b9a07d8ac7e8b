// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/head_norm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/norm/head_norm_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;
constexpr double kUnit = 0x1p-24;  // one rounding of f32
constexpr std::pair<NormKind, float> kFormulas[] = {{NormKind::layer, 0.0f}, {NormKind::rms, 1.0f}};
struct Storage {
  DType x, y, gamma;
};
constexpr Storage kStorage[] = {{DType::f32, DType::f32, DType::f32},
                                {DType::bf16, DType::bf16, DType::f32},
                                {DType::bf16, DType::bf16, DType::bf16},
                                {DType::f32, DType::bf16, DType::f32}};

/// Everything one forward and one backward are given: fused matrices of x, and of y and dx.
struct Inputs {
  HeadNormCase c;
  NormKind kind;
  float gamma_offset;
  Storage storage;
  TestTensor x, dy, gamma;

  Inputs(const HeadNormCase& size, std::pair<NormKind, float> formula, const Storage& types)
      : c(size),
        kind(formula.first),
        gamma_offset(formula.second),
        storage(types),
        x(matrix(types.x).fill(
            [](int64_t i) { return 0.3 + normal(1, static_cast<uint64_t>(i)); })),
        dy(matrix(types.y).fill_normal(2)),
        gamma(TestTensor(types.gamma, Shape{size.head_size}).fill_normal(3)) {}

  DType statistics() const { return storage.x == DType::f64 ? DType::f64 : DType::f32; }
  bool is_layer() const { return kind == NormKind::layer; }
  double factor(int64_t d) const { return static_cast<double>(gamma_offset) + gamma.at(d); }
  TestTensor matrix(DType dtype) const {
    const int64_t columns = (c.num_heads + 2 * c.num_kv_heads) * c.head_size;
    return TestTensor(dtype, Shape{c.rows, columns}, c.gap, c.misaligned);
  }
  template <typename View>
  auto heads_of(const View& qkv) const {
    return queries(qkv, c.num_heads, c.num_kv_heads, c.head_size);
  }
  /// Column of the matrix where element d of head h lies.
  int64_t column(int64_t h, int64_t d) const {
    const ConstView view = x;
    return heads_of(view).offset(0, h) + d;
  }

  /// y, rstd and mean.
  Outputs forward(Exec& exec, float eps = 1e-6f) const {
    TestTensor y = matrix(storage.y).fill_constant(0);
    TestTensor rstd(statistics(), Shape{c.rows, c.num_heads}), mean = rstd;
    mean.fill_constant(0);
    head_norm_forward(exec, {.x_TND = heads_of(x.view()),
                             .gamma_D = gamma,
                             .y_TND = heads_of(y.view()),
                             .mean_TN = is_layer() ? mean.view() : View(),
                             .rstd_TN = rstd,
                             .eps = eps,
                             .kind = kind,
                             .gamma_offset = gamma_offset});
    return {y, rstd, mean};
  }
  /// dx and dgamma, which goes on from 0.5.
  Outputs backward(Exec& exec, const Outputs& saved, int64_t rows_per_call = 1 << 30) const {
    TestTensor dx = matrix(storage.y).fill_constant(0);
    TestTensor dgamma(statistics(), Shape{c.partials, c.head_size});
    dgamma.fill_constant(0.5);
    for (int64_t t = 0; t < c.rows; t += rows_per_call) {
      const int64_t n = std::min(rows_per_call, c.rows - t);
      head_norm_backward(exec, {.dy_TND = heads_of(dy.view()).rows(t, n),
                                .x_TND = heads_of(x.view()).rows(t, n),
                                .gamma_D = gamma,
                                .mean_TN = is_layer() ? saved[2].view().rows(t, n) : ConstView(),
                                .rstd_TN = saved[1].view().rows(t, n),
                                .dx_TND = heads_of(dx.view()).rows(t, n),
                                .dgamma_PD = dgamma,
                                .kind = kind,
                                .gamma_offset = gamma_offset});
    }
    return {dx, dgamma};
  }
  std::string describe() const {
    return fmt::format("{}x{}x{} {} {}", c.rows, c.num_heads, c.head_size,
                       is_layer() ? "layer" : "rms", storage.x);
  }
};

TEST(HeadNorm, EqualsTheReferenceWithinItsBound) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kFormulas) {
      for (const Storage& storage : kStorage) {
        const Inputs in(c, formula, storage);
        const auto forward = [&](Exec& exec) { return in.forward(exec); };
        const Outputs y = testing::run_everywhere(forward, in.describe()),
                      saved = testing::run_reference(forward);
        const auto backward = [&](Exec& exec) { return in.backward(exec, saved); };
        const Outputs dx = testing::run_everywhere(backward, in.describe()),
                      expected_dx = testing::run_reference(backward);
        // As in layer_norm_test.cpp: `chain` roundings of a row's sums, of the sizes of what they
        // add; a few more and the result's own.
        const auto size = static_cast<double>(c.head_size);
        const double chain = size / 16 + 24, unit = 2 * testing::unit_roundoff(storage.y);
        std::vector<double> sums(static_cast<size_t>(c.partials * c.head_size), 0.5);
        for (int64_t t = 0; t < c.rows; ++t) {
          for (int64_t h = 0; h < c.num_heads; ++h) {
            const double rstd = saved[1].at(t, h), mean = saved[2].at(t, h);
            double mean_x = 0, mean_g = 0, mean_product = 0;
            const auto normalised = [&](int64_t d) {
              return std::abs((in.x.at(t, in.column(h, d)) - mean) * rstd);
            };
            const auto g = [&](int64_t d) {
              return std::abs(in.dy.at(t, in.column(h, d)) * in.factor(d));
            };
            for (int64_t d = 0; d < c.head_size; ++d) {
              const double dy = std::abs(in.dy.at(t, in.column(h, d)));
              mean_x += std::abs(in.x.at(t, in.column(h, d))) / size;
              mean_g += g(d) / size;
              mean_product += g(d) * normalised(d) / size;
              const int64_t partial = h / (c.num_heads / c.partials);
              sums[static_cast<size_t>(partial * c.head_size + d)] += dy * normalised(d);
            }
            for (int64_t d = 0; d < c.head_size; ++d) {
              const int64_t k = in.column(h, d);
              const double want = saved[0].at(t, k), want_dx = expected_dx[0].at(t, k);
              const double of_mean = rstd * mean_x * std::abs(in.factor(d));
              ASSERT_NEAR(y[0].at(t, k), want,
                          kUnit * chain * (of_mean + std::abs(want)) + unit * std::abs(want))
                  << in.describe();
              const double of_row = g(d) + mean_g + normalised(d) * mean_product;
              ASSERT_NEAR(dx[0].at(t, k), want_dx,
                          kUnit * chain * rstd * of_row + unit * std::abs(want_dx))
                  << in.describe();
            }
            ASSERT_NEAR(y[1].at(t, h), rstd, kUnit * chain * rstd);
          }
        }
        testing::expect_close(
            dx[1], expected_dx[1],
            [&](int64_t k) {
              return kUnit * static_cast<double>(c.rows * c.num_heads + 4) *
                     sums[static_cast<size_t>(k)];
            },
            in.describe());
      }
    }
  }
}

/// The heads of a fused matrix, one below the other: [T N, D].
TestTensor as_rows(const Inputs& in, const TestTensor& qkv) {
  TestTensor rows(qkv.dtype(), Shape{in.c.rows * in.c.num_heads, in.c.head_size});
  return rows.fill([&](int64_t i) {
    const int64_t row = i / in.c.head_size, head = row % in.c.num_heads;
    return qkv.at(row / in.c.num_heads, in.column(head, i % in.c.head_size));
  });
}

TEST(HeadNorm, EqualsTheNormOfRowsBitByBit) {
  for (const HeadNormCase& c : kHeadNormCases) {
    for (const auto& formula : kFormulas) {
      for (const Storage& storage : kStorage) {
        const Inputs in(c, formula, storage);
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
  for (const auto& formula : kFormulas) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Inputs in({9, 4, 2, 32, 2, 1, 1}, formula, {dtype, dtype, dtype});
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
  for (const auto& formula : kFormulas) {
    Inputs in({3, 4, 2, 5, 1}, formula, {DType::f64, DType::f64, DType::f64});
    const auto loss = [&] { return testing::weighted_sum(in.forward(exec)[0], in.dy); };
    Outputs gradients = in.backward(exec, in.forward(exec));
    for (int64_t d = 0; d < 5; ++d) gradients[1].set(d, gradients[1].at(d) - 0.5);
    testing::expect_gradient(loss, in.x, gradients[0], 1e-8, "dx");
    testing::expect_gradient(loss, in.gamma, gradients[1], 1e-8, "dgamma");
  }
}

TEST(HeadNorm, SplittingTheRowsIntoCallsKeepsTheBits) {
  const Inputs in({53, 6, 2, 45, 3, 1}, kFormulas[1], kStorage[1]);
  const auto split = [&](int64_t rows) {
    return testing::run_everywhere(
        [&](Exec& exec) { return in.backward(exec, in.forward(exec), rows); }, "split");
  };
  const Outputs whole = split(1000);
  for (const int64_t rows : {1, 7, 50}) testing::expect_same_bits(split(rows), whole, "calls");
}

TEST(HeadNorm, WorksInPlaceAndLeavesOtherHeadsAlone) {
  const Inputs in({41, 4, 2, 37, 4, 1, 1}, kFormulas[1], kStorage[0]);
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
  Inputs in(c, kFormulas[1], kStorage[1]);
  const Outputs saved = in.forward(exec);
  EXPECT_THROW(Inputs({3, 4, 2, 8, 3}, kFormulas[1], kStorage[1]).backward(exec, saved),
               InternalError);
  in.gamma = TestTensor(DType::f32, Shape{7});
  EXPECT_THROW(in.forward(exec), InternalError);
  in = Inputs(c, kFormulas[1], kStorage[1]);
  const auto work =
      testing::traced_work([&](Exec& e) { in.backward(e, saved); }, "head_norm_backward");
  EXPECT_EQ(work.bytes_read, 2 * (3 * 32 * 2) + 8 * 4 + 12 * 4 + 16 * 4);
  EXPECT_EQ(work.bytes_written, 3 * 32 * 2 + 16 * 4);
}

}  // namespace
}  // namespace megalith::kernels
