// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/layer_norm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/norm/layer_norm_inputs.h"

namespace megalith::kernels {
namespace {

constexpr double kUnit = 0x1p-24;  // one rounding of f32

TEST(LayerNorm, ForwardEqualsTheReferenceWithinItsBound) {
  for (const NormCase& c : kNormCases) {
    for (const auto& [kind, offset] : kFormulas) {
      for (const Storage& storage : kStorage) {
        const DType dtype = storage.gradient;
        const NormInputs in(c, kind, storage.x, dtype, storage.gamma, offset);
        const std::string what = describe(c, kind, storage.x);
        const auto run = [&](Exec& exec) { return in.forward(exec); };
        const Outputs actual = testing::run_everywhere(run, what),
                      expected = testing::run_reference(run);
        const auto n = static_cast<double>(c.columns);
        const double chain = n / 16 + 8;  // roundings of a row sum
        std::vector<double> row_size(static_cast<size_t>(c.rows));
        for (int64_t i = 0; i < in.x.size(); ++i) {
          row_size[static_cast<size_t>(i / c.columns)] += std::abs(in.x.at(i));
        }
        // Of x^: the mean's error; the relative error of rstd comes on top.
        const auto row_bound = [&](int64_t t) {
          return kUnit * chain * expected[1].at(t) * row_size[static_cast<size_t>(t)] / n;
        };
        testing::expect_close(
            actual[0], expected[0],
            [&](int64_t i) {
              const int64_t t = i / c.columns, column = i % c.columns;
              const double gamma = std::abs(in.factor(column)), y = std::abs(expected[0].at(i));
              const double relative = kUnit * (chain + 8) * (y + std::abs(in.beta.at(column)));
              return row_bound(t) * gamma + relative + 2 * testing::unit_roundoff(dtype) * y;
            },
            what);
        // With one column the variance is 0 exactly: x - mean is.
        testing::expect_close(
            actual[1], expected[1],
            [&](int64_t t) { return kUnit * (chain + 8) * expected[1].at(t); }, what);
        testing::expect_close(
            actual[2], expected[2], [&](int64_t t) { return row_bound(t) / expected[1].at(t); },
            what);
      }
    }
  }
}

TEST(LayerNorm, BackwardEqualsTheReferenceWithinItsBound) {
  for (const NormCase& c : kNormCases) {
    for (const auto& [kind, offset] : kFormulas) {
      for (const Storage& storage : kStorage) {
        const DType dtype = storage.gradient;
        const NormInputs in(c, kind, storage.x, dtype, storage.gamma, offset);
        const std::string what = describe(c, kind, storage.x);
        const Outputs saved = testing::run_reference([&](Exec& exec) { return in.forward(exec); });
        const TokenShards shards = {.rows_per_shard = 5, .count = 3, .first_row = 7};
        const auto run = [&](Exec& exec) { return in.backward(exec, saved, shards, true, 0.5); };
        const Outputs actual = testing::run_everywhere(run, what),
                      expected = testing::run_reference(run);
        const auto n = static_cast<double>(c.columns);
        const double chain = n / 16 + 16;
        const auto normalised = [&](int64_t t, int64_t i) {
          return std::abs((in.x.at(t, i) - saved[2].at(t)) * saved[1].at(t));
        };
        // Row means of |g| and |g x^|, and column sums of what the parameters' chains add.
        const auto rows = static_cast<size_t>(c.rows), columns = static_cast<size_t>(c.columns);
        std::vector<double> mean_g(rows), mean_product(rows), sum_product(columns, 0.5),
            sum_dy(columns, 0.5);
        for (int64_t k = 0; k < c.rows * c.columns; ++k) {
          const auto t = static_cast<size_t>(k / c.columns), i = static_cast<size_t>(k % c.columns);
          const double dy = std::abs(in.dy.at(k)), g = dy * std::abs(in.factor(k % c.columns));
          const double x = normalised(k / c.columns, k % c.columns);
          mean_g[t] += g / n;
          mean_product[t] += g * x / n;
          sum_product[i] += dy * x;
          sum_dy[i] += dy;
        }
        const auto bound = [&](int64_t k) {
          const int64_t row = k / c.columns;
          const auto t = static_cast<size_t>(row);
          const double g = std::abs(in.dy.at(k) * in.factor(k % c.columns));
          const double size = g + mean_g[t] + normalised(row, k % c.columns) * mean_product[t];
          return kUnit * (chain * saved[1].at(row) * size + std::abs(in.residual.at(k))) +
                 2 * testing::unit_roundoff(dtype) * std::abs(expected[0].at(k));
        };
        const auto chain_bound = [&](const std::vector<double>& size) {
          return [&](int64_t k) {
            return kUnit * (static_cast<double>(c.rows) + 4) *
                   size[static_cast<size_t>(k % c.columns)];
          };
        };
        testing::expect_close(actual[0], expected[0], bound, what);
        testing::expect_close(actual[1], expected[1], chain_bound(sum_product), what);
        testing::expect_close(actual[2], expected[2], chain_bound(sum_dy), what);
      }
    }
  }
}

TEST(LayerNorm, ExactNumbersGiveExactBits) {
  // Rows of +-a, a power of two, half of each sign: mean 0, deviation a, all sums of small numbers.
  const NormCase c = {9, 64, 3, 1};
  for (const NormKind kind : kKinds) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      NormInputs in(c, kind, dtype, dtype, dtype);
      in.x.fill([&](int64_t i) {
        return std::ldexp((i * 37 / 8) % 2 == i % 2 ? 1.0 : -1.0, static_cast<int>(i / 64 % 5) - 2);
      });
      for (int64_t t = 0; t < c.rows; ++t) {  // balance the signs
        double sum = 0;
        for (int64_t i = 0; i < 64; ++i) sum += in.x.at(t, i);
        const double size = std::abs(in.x.at(t, 0));
        for (int64_t i = 0; i < 64 && sum != 0; ++i) {
          if (in.x.at(t, i) * sum > 0)
            in.x.set(t, i, -in.x.at(t, i)), sum -= std::copysign(2 * size, sum);
        }
      }
      in.gamma.fill_integers(1, -2, 2);
      in.beta.fill_integers(2, -2, 2);
      in.dy.fill_integers(3, -2, 2);
      in.residual.fill_integers(4, -2, 2);
      const auto run = [&](Exec& exec) {
        Outputs outputs = in.forward(exec, 0.0f);
        for (const TestTensor& gradient :
             in.backward(exec, outputs, {.rows_per_shard = 2, .count = 2}, true, 1)) {
          outputs.push_back(gradient);
        }
        return outputs;
      };
      testing::expect_same_bits(testing::run_everywhere(run, "exact"), testing::run_reference(run),
                                describe(c, kind, dtype));
    }
  }
}

TEST(LayerNorm, BackwardMatchesFiniteDifference) {
  const NormCase c = {5, 13};
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (const auto& [kind, offset] : kFormulas) {
    NormInputs in(c, kind, DType::f64, DType::f64, DType::f64, offset);
    const auto loss = [&] { return testing::weighted_sum(in.forward(exec)[0], in.dy); };
    const Outputs gradients = in.backward(exec, in.forward(exec), {}, false);
    testing::expect_gradient(loss, in.x, gradients[0], 1e-8, "dx");
    testing::expect_gradient(loss, in.gamma, gradients[1], 1e-8, "dgamma");
    if (kind == NormKind::layer)
      testing::expect_gradient(loss, in.beta, gradients[2], 1e-8, "dbeta");
  }
}

TEST(LayerNorm, ResidualGradientEqualsTheComposition) {
  const NormCase c = {23, 77, 1, 1};
  for (const NormKind kind : kKinds) {
    const NormInputs in(c, kind, DType::f32, DType::f32, DType::f32);
    const auto fused = [&](Exec& exec) { return in.backward(exec, in.forward(exec), {}, true); };
    const auto composed = [&](Exec& exec) {
      Outputs outputs = in.backward(exec, in.forward(exec), {}, false);
      add(exec, in.residual, outputs[0], outputs[0]);
      return outputs;
    };
    testing::expect_same_bits(testing::run_everywhere(fused, "fused"),
                              testing::run_everywhere(composed, "composed"), "residual");
  }
}

TEST(LayerNorm, ParameterGradientsAreOneChainPerPartialHoweverRowsAreSplit) {
  const NormCase c = {101, 45};
  const NormInputs in(c, NormKind::layer, DType::f32, DType::f32, DType::f32);
  const TokenShards shards = {.rows_per_shard = 6, .count = 4, .first_row = 10};
  const Outputs saved =
      testing::run_everywhere([&](Exec& exec) { return in.forward(exec); }, "forward");
  const auto split = [&](int64_t rows) {
    return testing::run_everywhere(
        [&](Exec& exec) { return in.backward(exec, saved, shards, true, 0.25, rows); }, "split");
  };
  const Outputs whole = split(1000);
  for (const int64_t rows : {1, 7, 50})
    testing::expect_same_bits(split(rows), whole, "rows per call");
  for (int64_t i = 0; i < c.columns; ++i) {
    std::vector<float> dgamma(4, 0.25f), dbeta(4, 0.25f);
    for (int64_t t = 0; t < c.rows; ++t) {
      const auto partial = static_cast<size_t>((10 + t) / 6 % 4);
      const auto dy = static_cast<float>(in.dy.at(t, i));
      const float normalised =
          (static_cast<float>(in.x.at(t, i)) - static_cast<float>(saved[2].at(t))) *
          static_cast<float>(saved[1].at(t));
      dgamma[partial] = std::fma(dy, normalised, dgamma[partial]);
      dbeta[partial] += dy;
    }
    for (int64_t p = 0; p < 4; ++p) {
      ASSERT_EQ(static_cast<float>(whole[1].at(p, i)), dgamma[static_cast<size_t>(p)]);
      ASSERT_EQ(static_cast<float>(whole[2].at(p, i)), dbeta[static_cast<size_t>(p)]);
    }
  }
}

TEST(LayerNorm, RowsDoNotSeeTheirNeighbours) {
  const NormCase c = {17, 130};
  const NormInputs in(c, NormKind::layer, DType::bf16, DType::bf16, DType::f32);
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  const Outputs whole = in.forward(exec);
  TestTensor y(DType::bf16, Shape{1, 130});
  for (int64_t t = 0; t < c.rows; ++t) {
    layer_norm_forward(
        exec, {.x_TH = in.x.view().rows(t, 1), .gamma_H = in.gamma, .beta_H = in.beta, .y_TH = y});
    for (int64_t i = 0; i < c.columns; ++i) ASSERT_EQ(y.at(0, i), whole[0].at(t, i));
  }
}

TEST(LayerNorm, NaNStaysInItsRow) {
  const NormCase c = {6, 40};
  NormInputs in(c, NormKind::layer, DType::f32, DType::f32, DType::f32);
  in.x.set(2, 39, NAN);
  in.dy.set(4, 0, NAN);
  const auto run = [&](Exec& exec) {
    const Outputs y = in.forward(exec);
    return Outputs{y[0], in.backward(exec, y, {}, false)[0]};
  };
  const Outputs y = testing::run_everywhere(run, "NaN");
  for (int64_t t = 0; t < c.rows; ++t) {
    for (int64_t i = 0; i < c.columns; ++i) {
      ASSERT_EQ(std::isnan(y[0].at(t, i)), t == 2);
      ASSERT_EQ(std::isnan(y[1].at(t, i)), t == 2 || t == 4);
    }
  }
}

TEST(LayerNorm, LargeNearlyEqualNumbersInAnOddRowStayFinite) {
  // The deviations are small, but the mean times rstd is beyond f32.
  const NormCase c = {3, 21};
  NormInputs in(c, NormKind::layer, DType::f32, DType::f32, DType::f32);
  in.x.fill_constant(0x1p120);
  const auto run = [&](Exec& exec) {
    const Outputs y = in.forward(exec);
    return Outputs{y[0], in.backward(exec, y, {}, false)[0]};
  };
  const Outputs y = testing::run_everywhere(run, "large");
  for (int64_t i = 0; i < y[0].size(); ++i) {
    ASSERT_TRUE(std::isfinite(y[1].at(i))) << i;
  }
}

TEST(LayerNorm, DxMayOverwriteDyOrTheResidualGradient) {
  const NormCase c = {40, 300};
  for (const bool over_dy : {true, false}) {
    const NormInputs in(c, NormKind::layer, DType::f32, DType::f32, DType::f32);
    const auto device = device::make_cpu_device(2);
    Exec exec(*device);
    const Outputs saved = in.forward(exec), expected = in.backward(exec, saved, {}, true);
    NormInputs work = in;
    TestTensor& target = over_dy ? work.dy : work.residual;
    TestTensor dgamma(DType::f32, Shape{1, 300}), dbeta = dgamma;
    dgamma.fill_constant(0), dbeta.fill_constant(0);
    layer_norm_backward(exec, {work.dy,
                               work.x,
                               work.gamma,
                               saved[2],
                               saved[1],
                               target,
                               work.residual,
                               dgamma,
                               dbeta,
                               {}});
    testing::expect_same_bits({target, dgamma, dbeta}, expected, "aliased");
  }
}

TEST(LayerNorm, RefusesWrongShapes) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor x(DType::f32, Shape{2, 8}), gamma(DType::f32, Shape{7});
  EXPECT_THROW(layer_norm_forward(exec, {.x_TH = x, .gamma_H = gamma, .y_TH = x}), InternalError);
}

TEST(LayerNorm, TraceCountsBytes) {
  const NormCase c = {3, 8};
  const NormInputs in(c, NormKind::layer, DType::bf16, DType::bf16, DType::f32);
  const auto work =
      testing::traced_work([&](Exec& exec) { in.forward(exec); }, "layer_norm_forward");
  EXPECT_EQ(work.bytes_read, 24 * 2 + 8 * 4 * 2);
  EXPECT_EQ(work.bytes_written, 24 * 2 + 3 * 4 * 2);
}

}  // namespace
}  // namespace megalith::kernels
