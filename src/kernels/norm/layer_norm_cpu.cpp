// SPDX-License-Identifier: Apache-2.0
// Norms for f32 and bf16. Forward: a row at a time, three passes over it in the first-level cache.
// Backward: blocks of rows that stay in the second-level cache are read twice, once by columns for
// the parameters' chains (they run over rows, so threads share columns), then by rows for dx.
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
#include "kernels/elementary/any_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// (x - mean) * rstd
HWY_INLINE Vec16 normalised16(const Vec16& x, FloatVec mean, FloatVec rstd) {
  Vec16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Mul(hn::Sub(x.part[i], mean), rstd);
  return v;
}
HWY_INLINE Vec16 mul16(const Vec16& a, const Vec16& b) {
  Vec16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Mul(a.part[i], b.part[i]);
  return v;
}

float row_mean(const AnyRow& x, int64_t n) {
  Vec16 sum = set16(0.0f);
  for (int64_t i = 0; i < n; i += 16) sum = add16(sum, load16(x, i, n));
  return tree_sum16(sum) / static_cast<float>(n);
}

/// Mean of the squared distances from `mean`.
float row_variance(const AnyRow& x, float mean, int64_t n) {
  const FloatVec means = hn::Set(FloatTag(), mean), one = hn::Set(FloatTag(), 1.0f);
  Vec16 sum = set16(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Vec16 deviation = normalised16(load16(x, i, n), means, one);
    sum = fma16(deviation, deviation, sum);
  }
  if (i < n) {
    const Vec16 deviation = first16(normalised16(load16(x, i, n), means, one), n - i);
    sum = fma16(deviation, deviation, sum);
  }
  return tree_sum16(sum) / static_cast<float>(n);
}

void forward_rows(const LayerNormForward& a, Range range) {
  const int64_t n = a.x_TH.size(1);
  const AnyRow gamma(a.gamma_H, 0), beta(a.beta_H, 0);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const AnyRow x(a.x_TH, t);
    const AnyOutputRow y(a.y_TH, t);
    const float mean = a.kind == NormKind::layer ? row_mean(x, n) : 0.0f;
    const float rstd = 1.0f / std::sqrt(row_variance(x, mean, n) + a.eps);
    const FloatVec means = hn::Set(FloatTag(), mean), rstds = hn::Set(FloatTag(), rstd);
    for (int64_t i = 0; i < n; i += 16) {
      const Vec16 normalised = normalised16(load16(x, i, n), means, rstds);
      const Vec16 factor = load16(gamma, i, n);
      store16(beta ? fma16(normalised, factor, load16(beta, i, n)) : mul16(normalised, factor), y,
              i, n);
    }
    if (!a.mean_T.absent()) a.mean_T.as<float>()[t] = mean;
    if (!a.rstd_T.absent()) a.rstd_T.as<float>()[t] = rstd;
  }
}

float saved_mean(const LayerNormBackward& a, int64_t t) {
  return a.kind == NormKind::layer ? a.mean_T.as<float>()[t] : 0.0f;
}

void backward_rows(const LayerNormBackward& a, Range range) {
  const int64_t n = a.x_TH.size(1);
  const auto count = static_cast<float>(n);
  const AnyRow gamma(a.gamma_H, 0);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const AnyRow x(a.x_TH, t), dy(a.dy_TH, t), residual(a.residual_gradient_TH, t);
    const AnyOutputRow dx(a.dx_TH, t);
    const FloatVec mean = hn::Set(FloatTag(), saved_mean(a, t));
    const FloatVec rstd = hn::Set(FloatTag(), a.rstd_T.as<float>()[t]);
    Vec16 sum = set16(0.0f), sum_normalised = set16(0.0f);
    for (int64_t i = 0; i < n; i += 16) {
      // Beyond the row's end g is 0.
      const Vec16 g = mul16(load16(dy, i, n), load16(gamma, i, n));
      sum = add16(sum, g);
      sum_normalised = fma16(g, normalised16(load16(x, i, n), mean, rstd), sum_normalised);
    }
    const float mean_g = a.kind == NormKind::layer ? tree_sum16(sum) / count : 0.0f;
    const FloatVec mean_gs = hn::Set(FloatTag(), mean_g);
    const FloatVec slope = hn::Set(FloatTag(), tree_sum16(sum_normalised) / count);
    for (int64_t i = 0; i < n; i += 16) {
      const Vec16 normalised = normalised16(load16(x, i, n), mean, rstd);
      Vec16 out = mul16(load16(dy, i, n), load16(gamma, i, n));
      for (int k = 0; k < kParts; ++k) {
        const FloatVec centred = hn::Sub(out.part[k], mean_gs);
        out.part[k] = hn::Mul(hn::NegMulAdd(normalised.part[k], slope, centred), rstd);
      }
      store16(residual ? add16(load16(residual, i, n), out) : out, dx, i, n);
    }
  }
}

/// Columns [column, column + 16 kWidth) of the parameters' gradients over rows of one partial.
template <int kWidth>
void parameter_chains(const LayerNormBackward& a, int64_t partial, Range rows, int64_t column) {
  const int64_t n = a.x_TH.size(1);
  Vec16 dgamma[kWidth], dbeta[kWidth];
  const AnyRow dgamma_in(a.dgamma_PH, partial), dbeta_in(a.dbeta_PH, partial);
  for (int k = 0; k < kWidth; ++k) {
    dgamma[k] = dgamma_in ? load16(dgamma_in, column + 16 * k, n) : set16(0.0f);
    dbeta[k] = dbeta_in ? load16(dbeta_in, column + 16 * k, n) : set16(0.0f);
  }
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const AnyRow x(a.x_TH, t), dy(a.dy_TH, t);
    const FloatVec mean = hn::Set(FloatTag(), saved_mean(a, t));
    const FloatVec rstd = hn::Set(FloatTag(), a.rstd_T.as<float>()[t]);
    for (int k = 0; k < kWidth; ++k) {
      const Vec16 g = load16(dy, column + 16 * k, n);
      dgamma[k] = fma16(g, normalised16(load16(x, column + 16 * k, n), mean, rstd), dgamma[k]);
      dbeta[k] = add16(dbeta[k], g);
    }
  }
  for (int k = 0; k < kWidth; ++k) {
    if (dgamma_in) store16(dgamma[k], AnyOutputRow(a.dgamma_PH, partial), column + 16 * k, n);
    if (dbeta_in) store16(dbeta[k], AnyOutputRow(a.dbeta_PH, partial), column + 16 * k, n);
  }
}

void backward_columns(const LayerNormBackward& a, Range rows, Range columns) {
  for (int64_t t = rows.begin; t < rows.end;) {
    const int64_t run_end = a.shards.run_end(t, rows.end);
    const int64_t partial = a.shards.partial_of(t);
    int64_t column = columns.begin;
    for (; column + 32 <= columns.end; column += 32)
      parameter_chains<2>(a, partial, {t, run_end}, column);
    for (; column < columns.end; column += 16)
      parameter_chains<1>(a, partial, {t, run_end}, column);
    t = run_end;
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
