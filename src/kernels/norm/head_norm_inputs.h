// SPDX-License-Identifier: Apache-2.0
// What the tests of head_norm are given: operands of one forward and one backward. For tests only.
#pragma once

#include <string>
#include <utility>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/norm/head_norm.h"
#include "kernels/norm/head_norm_cases.h"

namespace megalith::kernels {

using testing::Outputs;
using testing::TestTensor;

inline constexpr std::pair<NormKind, float> kHeadFormulas[] = {{NormKind::layer, 0.0f},
                                                               {NormKind::rms, 1.0f}};
struct HeadStorage {
  DType x, y, gamma;
};
inline constexpr HeadStorage kHeadStorage[] = {{DType::f32, DType::f32, DType::f32},
                                               {DType::bf16, DType::bf16, DType::f32},
                                               {DType::bf16, DType::bf16, DType::bf16},
                                               {DType::f32, DType::bf16, DType::f32},
                                               {DType::f16, DType::f16, DType::f16}};

/// All operands of one forward and one backward: fused matrices of x, and of y and dx.
struct HeadNormInputs {
  HeadNormCase c;
  NormKind kind;
  float gamma_offset;
  HeadStorage storage;
  TestTensor x, dy, gamma;

  HeadNormInputs(const HeadNormCase& size, std::pair<NormKind, float> formula,
                 const HeadStorage& types)
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
  /// dx and dgamma, whose chains continue from 0.5.
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

/// The heads of a fused matrix, one below the other: [T N, D].
inline TestTensor as_rows(const HeadNormInputs& in, const TestTensor& qkv) {
  TestTensor rows(qkv.dtype(), Shape{in.c.rows * in.c.num_heads, in.c.head_size});
  return rows.fill([&](int64_t i) {
    const int64_t row = i / in.c.head_size, head = row % in.c.num_heads;
    return qkv.at(row / in.c.num_heads, in.column(head, i % in.c.head_size));
  });
}

}  // namespace megalith::kernels
