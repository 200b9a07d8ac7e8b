// SPDX-License-Identifier: Apache-2.0
// What the tests of layer_norm are given: operands of one forward and one backward. For tests only.
#pragma once

#include <string>
#include <utility>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_cases.h"

namespace megalith::kernels {

using testing::Outputs;
using testing::TestTensor;

inline constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms};
inline constexpr std::pair<NormKind, float> kFormulas[] = {  // with the offset of gamma
    {NormKind::layer, 0.0f},
    {NormKind::layer, -0.5f},
    {NormKind::rms, 0.0f},
    {NormKind::rms, 1.0f}};

inline TestTensor tensor(DType dtype, const NormCase& c) {
  return TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, c.misaligned);
}
/// Storage of x, of y and all gradients, and of gamma and beta: the usual ones and odd mixes.
struct Storage {
  DType x, gradient, gamma;
};
inline constexpr Storage kStorage[] = {
    {DType::f32, DType::f32, DType::f32},    {DType::bf16, DType::bf16, DType::f32},
    {DType::bf16, DType::bf16, DType::bf16}, {DType::f32, DType::bf16, DType::f32},
    {DType::bf16, DType::f32, DType::bf16},  {DType::f16, DType::f16, DType::f16},
    {DType::f16, DType::f16, DType::f32}};

inline std::string describe(const NormCase& c, NormKind kind, DType dtype) {
  return fmt::format("{}x{} {} {}", c.rows, c.columns, kind == NormKind::rms ? "rms" : "layer",
                     dtype);
}

/// All operands of one forward and one backward.
struct NormInputs {
  TestTensor x, dy, residual, gamma, beta;
  DType statistics;  // of mean, rstd and the parameters' gradients
  NormKind kind;
  NormCase size;
  float gamma_offset;

  NormInputs(const NormCase& c, NormKind k, DType x_type, DType gradient_type, DType gamma_type,
             float offset_of_gamma = 0)
      : x(tensor(x_type, c).fill(
            [&, offset = 0.7](int64_t i) { return offset + normal(1, static_cast<uint64_t>(i)); })),
        dy(tensor(gradient_type, c).fill_normal(2)),
        residual(tensor(gradient_type, c).fill_normal(3)),
        gamma(TestTensor(gamma_type, Shape{c.columns}).fill_normal(4)),
        beta(TestTensor(gamma_type, Shape{c.columns}).fill_normal(5)),
        statistics(x_type == DType::f64 ? DType::f64 : DType::f32),
        kind(k),
        size(c),
        gamma_offset(offset_of_gamma) {}

  bool is_layer() const { return kind == NormKind::layer; }
  double factor(int64_t column) const {
    return static_cast<double>(gamma_offset) + gamma.at(column);
  }
  /// y, rstd and, for layer, mean.
  Outputs forward(Exec& exec, float eps = 1e-5f) const {
    TestTensor y = tensor(dy.dtype(), size);
    TestTensor rstd(statistics, Shape{size.rows}), mean(statistics, Shape{size.rows});
    mean.fill_constant(0);
    layer_norm_forward(exec, {.x_TH = x,
                              .gamma_H = gamma,
                              .beta_H = is_layer() ? beta.view() : ConstView(),
                              .y_TH = y,
                              .mean_T = is_layer() ? mean.view() : View(),
                              .rstd_T = rstd,
                              .eps = eps,
                              .kind = kind,
                              .gamma_offset = gamma_offset});
    return {y, rstd, mean};
  }
  /// dx, dgamma, dbeta; gradients continue from `start`. `rows_per_call` splits the call.
  Outputs backward(Exec& exec, const Outputs& saved, const TokenShards& shards, bool add_residual,
                   double start = 0, int64_t rows_per_call = 1 << 30) const {
    TestTensor dx = tensor(dy.dtype(), size);
    TestTensor dgamma(statistics, Shape{shards.count, size.columns}), dbeta = dgamma;
    dgamma.fill_constant(start);
    dbeta.fill_constant(start);
    for (int64_t t = 0; t < std::max<int64_t>(size.rows, 1); t += rows_per_call) {
      const int64_t n = std::min(rows_per_call, size.rows - t);
      TokenShards part = shards;
      part.first_row += t;
      layer_norm_backward(
          exec, {.dy_TH = dy.view().rows(t, n),
                 .x_TH = x.view().rows(t, n),
                 .gamma_H = gamma,
                 .mean_T = is_layer() ? saved[2].view().rows(t, n) : ConstView(),
                 .rstd_T = saved[1].view().rows(t, n),
                 .dx_TH = dx.view().rows(t, n),
                 .residual_gradient_TH = add_residual ? residual.view().rows(t, n) : ConstView(),
                 .dgamma_PH = dgamma,
                 .dbeta_PH = is_layer() ? dbeta.view() : View(),
                 .shards = part,
                 .kind = kind,
                 .gamma_offset = gamma_offset});
    }
    return {dx, dgamma, dbeta};
  }
};

}  // namespace megalith::kernels
