// SPDX-License-Identifier: Apache-2.0
// Norms for f32 and bf16. Forward: a row at a time, three passes over it in the first-level cache.
// Backward: blocks of rows that stay in the second-level cache are read twice, once with the
// columns dealt to the threads for the parameters' chains (they run over rows), then with the rows
// for dx.
#include <cmath>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/layer_norm_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/cache_control.h"
#include "kernels/elementary/any_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// (x - mean) * rstd
HWY_INLINE Vec16 normalised16(const Vec16& x, FloatVec mean, FloatVec rstd) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Mul(hn::Sub(x.part[i], mean), rstd);
  return v;
}
HWY_INLINE Vec16 mul16(const Vec16& a, const Vec16& b) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Mul(a.part[i], b.part[i]);
  return v;
}

template <class Row>
float row_mean(const Row& x, int64_t n) {
  Vec16 sum = set16(0.0f);
  for_columns(0, n, [&](int64_t i, auto full) {
    sum = add16(sum, load_row<decltype(full)::value>(x, i, n));
  });
  return tree_sum16(sum) / static_cast<float>(n);
}

/// Mean of the squared distances from `mean`.
template <class Row>
float row_variance(const Row& x, float mean, int64_t n) {
  const FloatVec means = hn::Set(FloatTag(), mean), one = hn::Set(FloatTag(), 1.0f);
  Vec16 sum = set16(0.0f);
  for_columns(0, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 deviation = normalised16(load_row<kFull>(x, i, n), means, one);
    if constexpr (!kFull) deviation = first16(deviation, n - i);
    sum = fma16(deviation, deviation, sum);
  });
  return tree_sum16(sum) / static_cast<float>(n);
}

/// Row types of the activations (X, Y) and of the parameters (P).
template <class X, class Y, class P>
void forward_rows_of(const LayerNormForward& a, Range range) {
  const int64_t n = a.x_TH.size(1);
  const P gamma(a.gamma_H, 0), beta(a.beta_H, 0);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const X x(a.x_TH, t), next(a.x_TH, std::min(t + 1, range.end - 1));
    const Y y(a.y_TH, t);
    const float mean = a.kind == NormKind::layer ? row_mean(x, n) : 0.0f;
    const float rstd = 1.0f / std::sqrt(row_variance(x, mean, n) + a.eps);
    const FloatVec means = hn::Set(FloatTag(), mean), rstds = hn::Set(FloatTag(), rstd);
    for_columns(0, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      hwy::Prefetch(next.data +
                    i);  // this pass does not wait for memory, the next row's first does
      const Vec16 normalised = normalised16(load_row<kFull>(x, i, n), means, rstds);
      const Vec16 factor = load_row<kFull>(gamma, i, n);
      const Vec16 out =
          beta ? fma16(normalised, factor, load_row<kFull>(beta, i, n)) : mul16(normalised, factor);
      store_row<kFull>(out, y, i, n);
    });
    if (!a.mean_T.absent()) a.mean_T.as<float>()[t] = mean;
    if (!a.rstd_T.absent()) a.rstd_T.as<float>()[t] = rstd;
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
  } else {
    forward_rows_of<AnyRow, AnyOutputRow, AnyRow>(a, range);
  }
}

float saved_mean(const LayerNormBackward& a, int64_t t) {
  return a.kind == NormKind::layer ? a.mean_T.as<float>()[t] : 0.0f;
}

template <class X, class Y, class P>
void backward_rows_of(const LayerNormBackward& a, Range range) {
  const int64_t n = a.x_TH.size(1);
  const auto count = static_cast<float>(n);
  const P gamma(a.gamma_H, 0);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const X x(a.x_TH, t), dy(a.dy_TH, t), residual(a.residual_gradient_TH, t);
    const Y dx(a.dx_TH, t);
    const FloatVec mean = hn::Set(FloatTag(), saved_mean(a, t));
    const FloatVec rstd = hn::Set(FloatTag(), a.rstd_T.as<float>()[t]);
    Vec16 sum = set16(0.0f), sum_normalised = set16(0.0f);
    for_columns(0, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      const Vec16 g = mul16(load_row<kFull>(dy, i, n), load_row<kFull>(gamma, i, n));
      Vec16 normalised = normalised16(load_row<kFull>(x, i, n), mean, rstd);
      // Beyond the row's end g is 0, and -mean rstd could be infinite.
      if constexpr (!kFull) normalised = first16(normalised, n - i);
      sum = add16(sum, g);
      sum_normalised = fma16(g, normalised, sum_normalised);
    });
    const float mean_g = a.kind == NormKind::layer ? tree_sum16(sum) / count : 0.0f;
    const FloatVec mean_gs = hn::Set(FloatTag(), mean_g);
    const FloatVec slope = hn::Set(FloatTag(), tree_sum16(sum_normalised) / count);
    for_columns(0, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      const Vec16 normalised = normalised16(load_row<kFull>(x, i, n), mean, rstd);
      Vec16 out = mul16(load_row<kFull>(dy, i, n), load_row<kFull>(gamma, i, n));
#pragma GCC unroll 2
      for (int k = 0; k < kParts; ++k) {
        const FloatVec centred = hn::Sub(out.part[k], mean_gs);
        out.part[k] = hn::Mul(hn::NegMulAdd(normalised.part[k], slope, centred), rstd);
      }
      if (residual) out = add16(load_row<kFull>(residual, i, n), out);
      store_row<kFull>(out, dx, i, n);
    });
  }
}

/// The chains of kRows rows, from row t, of one partial over some columns.
template <class X, int kRows>
void add_parameter_rows(const LayerNormBackward& a, int64_t partial, int64_t t, Range columns) {
  const int64_t n = columns.end;
  const TypedRow<float> dgamma(a.dgamma_PH, partial), dbeta(a.dbeta_PH, partial);
  const TypedOutputRow<float> dgamma_out(a.dgamma_PH, partial), dbeta_out(a.dbeta_PH, partial);
  X x[kRows], dy[kRows];
  FloatVec mean[kRows], rstd[kRows];
  for (int r = 0; r < kRows; ++r) {
    x[r] = X(a.x_TH, t + r);
    dy[r] = X(a.dy_TH, t + r);
    mean[r] = hn::Set(FloatTag(), saved_mean(a, t + r));
    rstd[r] = hn::Set(FloatTag(), a.rstd_T.as<float>()[t + r]);
  }
  for_columns(columns.begin, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 slope = dgamma ? load_row<kFull>(dgamma, i, n) : set16(0.0f);
    Vec16 shift = dbeta ? load_row<kFull>(dbeta, i, n) : set16(0.0f);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Vec16 g = load_row<kFull>(dy[r], i, n);
      slope = fma16(g, normalised16(load_row<kFull>(x[r], i, n), mean[r], rstd[r]), slope);
      shift = add16(shift, g);
    }
    if (dgamma_out) store_row<kFull>(slope, dgamma_out, i, n);
    if (dbeta_out) store_row<kFull>(shift, dbeta_out, i, n);
  });
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
  } else {
    backward_rows_of<AnyRow, AnyOutputRow, AnyRow>(a, range);
  }
}

void backward_columns(const LayerNormBackward& a, Range rows, Range columns) {
  if (is_all(DType::f32, a)) {
    backward_columns_of<TypedRow<float>>(a, rows, columns);
  } else if (is_all(DType::bf16, a)) {
    backward_columns_of<TypedRow<bf16_t>>(a, rows, columns);
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
