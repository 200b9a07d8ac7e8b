// SPDX-License-Identifier: Apache-2.0
// Norms for f32, bf16 and f16. Forward: a row at a time, three passes over it in the first-level
// cache. Backward: blocks of rows that stay in the second-level cache are read twice, once with the
// columns dealt to the threads for the parameters' chains (they run over rows), then with the rows
// for dx.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/layer_norm_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/norm/norm_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// Row types of the activations (X, Y) and of the parameters (P).
template <class X, class Y, class P>
void forward_rows_of(const LayerNormForward& a, Range range) {
  const NormFactor<P> factor(P(a.gamma_H, 0), a.gamma_offset);
  const P beta(a.beta_H, 0);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const X x(a.x_TH, t), next(a.x_TH, std::min(t + 1, range.end - 1));
    const RowStatistics row =
        normalise_row(x, Y(a.y_TH, t), factor, beta, next, a.x_TH.size(1), a.kind, a.eps);
    if (!a.mean_T.absent()) a.mean_T.as<float>()[t] = row.mean;
    if (!a.rstd_T.absent()) a.rstd_T.as<float>()[t] = row.rstd;
  }
}

/// The storage that a training step uses has typed code; any other mix is taken too.
void forward_rows(const LayerNormForward& a, Range range) {
  const DType x = a.x_TH.dtype(), p = a.gamma_H.dtype();
  const bool same = a.y_TH.dtype() == x && (a.beta_H.absent() || a.beta_H.dtype() == p);
  if (same && x == DType::f32 && p == DType::f32) {
    forward_rows_of<TypedRow<float>, TypedOutputRow<float>, TypedRow<float>>(a, range);
  } else if (same && x == DType::bf16 && p == DType::bf16) {
    forward_rows_of<TypedRow<bf16_t>, TypedOutputRow<bf16_t>, TypedRow<bf16_t>>(a, range);
  } else if (same && x == DType::bf16) {
    forward_rows_of<TypedRow<bf16_t>, TypedOutputRow<bf16_t>, TypedRow<float>>(a, range);
  } else if (same && x == DType::f16 && p == DType::f16) {
    forward_rows_of<TypedRow<f16_t>, TypedOutputRow<f16_t>, TypedRow<f16_t>>(a, range);
  } else {
    forward_rows_of<AnyRow, AnyOutputRow, AnyRow>(a, range);
  }
}

RowStatistics saved_statistics(const LayerNormBackward& a, int64_t t) {
  return {a.kind == NormKind::layer ? a.mean_T.as<float>()[t] : 0.0f, a.rstd_T.as<float>()[t]};
}

template <class X, class Y, class P>
void backward_rows_of(const LayerNormBackward& a, Range range) {
  const NormFactor<P> factor(P(a.gamma_H, 0), a.gamma_offset);
  for (int64_t t = range.begin; t < range.end; ++t) {
    backward_row(X(a.x_TH, t), X(a.dy_TH, t), X(a.residual_gradient_TH, t), Y(a.dx_TH, t), factor,
                 saved_statistics(a, t), a.x_TH.size(1), a.kind);
  }
}

/// The chains of kRows rows, from row t, of one partial over some columns.
template <class X, int kRows>
void add_parameter_rows(const LayerNormBackward& a, int64_t partial, int64_t t, Range columns) {
  ChainRows<X, kRows> rows;
  for (int r = 0; r < kRows; ++r)
    rows.set(r, X(a.x_TH, t + r), X(a.dy_TH, t + r), saved_statistics(a, t + r));
  rows.add_to({a.dgamma_PH, partial}, {a.dbeta_PH, partial}, columns);
}

template <class X>
void backward_columns_of(const LayerNormBackward& a, Range rows, Range columns) {
  for (int64_t t = rows.begin; t < rows.end;) {
    const int64_t run_end = a.shards.run_end(t, rows.end);
    const int64_t partial = a.shards.partial_of(t);
    for (; t + 4 <= run_end; t += 4) add_parameter_rows<X, 4>(a, partial, t, columns);
    for (; t < run_end; ++t) add_parameter_rows<X, 1>(a, partial, t, columns);
  }
}

bool is_all(DType dtype, const LayerNormBackward& a) {
  return a.x_TH.dtype() == dtype && a.dy_TH.dtype() == dtype && a.dx_TH.dtype() == dtype &&
         (a.residual_gradient_TH.absent() || a.residual_gradient_TH.dtype() == dtype);
}

void backward_rows(const LayerNormBackward& a, Range range) {
  const bool f32_gamma = a.gamma_H.dtype() == DType::f32;
  if (is_all(DType::f32, a) && f32_gamma) {
    backward_rows_of<TypedRow<float>, TypedOutputRow<float>, TypedRow<float>>(a, range);
  } else if (is_all(DType::bf16, a) && f32_gamma) {
    backward_rows_of<TypedRow<bf16_t>, TypedOutputRow<bf16_t>, TypedRow<float>>(a, range);
  } else if (is_all(DType::bf16, a)) {
    backward_rows_of<TypedRow<bf16_t>, TypedOutputRow<bf16_t>, TypedRow<bf16_t>>(a, range);
  } else if (is_all(DType::f16, a) && a.gamma_H.dtype() == DType::f16) {
    backward_rows_of<TypedRow<f16_t>, TypedOutputRow<f16_t>, TypedRow<f16_t>>(a, range);
  } else {
    backward_rows_of<AnyRow, AnyOutputRow, AnyRow>(a, range);
  }
}

void backward_columns(const LayerNormBackward& a, Range rows, Range columns) {
  if (is_all(DType::f32, a)) {
    backward_columns_of<TypedRow<float>>(a, rows, columns);
  } else if (is_all(DType::bf16, a)) {
    backward_columns_of<TypedRow<bf16_t>>(a, rows, columns);
  } else if (is_all(DType::f16, a)) {
    backward_columns_of<TypedRow<f16_t>>(a, rows, columns);
  } else {
    backward_columns_of<AnyRow>(a, rows, columns);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kGrainElements = 8192;     // less is not worth another thread
constexpr int64_t kBlockBytes = 256 * 1024;  // x and dy of a block, per thread: a quarter of the L2

}  // namespace

void layer_norm_forward_simd(Exec& exec, const LayerNormForward& a) {
  const int64_t grain = std::max<int64_t>(1, kGrainElements / a.x_TH.size(1));
  exec.device.pool().for_range(a.x_TH.size(0), grain, [&](Range range, int) {
    MEGA_CALL_SIMD(exec, forward_rows, a, range);
  });
}

void layer_norm_backward_simd(Exec& exec, const LayerNormBackward& a) {
  ThreadPool& pool = exec.device.pool();
  const int64_t rows = a.x_TH.size(0), columns = a.x_TH.size(1);
  const int64_t row_grain = std::max<int64_t>(1, kGrainElements / columns);
  const int64_t row_bytes = columns * (bytes_of(a.x_TH.dtype()) + bytes_of(a.dy_TH.dtype()));
  const int64_t block = std::max<int64_t>(8, pool.num_threads() * kBlockBytes / row_bytes);
  const bool has_parameters = !a.dgamma_PH.absent() || !a.dbeta_PH.absent();
  for (int64_t begin = 0; begin < rows; begin += block) {
    const Range part = {begin, std::min(rows, begin + block)};
    if (has_parameters) {  // first: dx may overwrite dy
      const int64_t grain = std::max<int64_t>(1, kGrainElements / part.size() / 32) * 32;
      pool.for_range(columns, grain, [&](Range range, int) {
        MEGA_CALL_SIMD(exec, backward_columns, a, part, range);
      });
    }
    pool.for_range(part.size(), row_grain, [&](Range range, int) {
      MEGA_CALL_SIMD(exec, backward_rows, a, Range{begin + range.begin, begin + range.end});
    });
  }
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
