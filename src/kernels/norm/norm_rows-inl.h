// SPDX-License-Identifier: Apache-2.0
// One row of a norm, forward and backward, over the row types of any_row-inl.h: what layer_norm,
// head_norm and whole_norm share. Sums that run on over several stretches of a row are given and
// returned in their 16 lanes. Include after foreach_target.h (elementary/dispatch.h).

#include <cmath>

#include "hwy/cache_control.h"
#include "kernels/elementary/any_row-inl.h"
#include "kernels/norm/layer_norm.h"

#if defined(MEGA_KERNELS_NORM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_NORM_ROWS_INL_H_
#undef MEGA_KERNELS_NORM_ROWS_INL_H_
#else
#define MEGA_KERNELS_NORM_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

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

/// sum + x
template <class Row>
HWY_INLINE Vec16 add_row(Vec16 sum, const Row& x, int64_t n) {
  for_columns(0, n, [&](int64_t i, auto full) {
    sum = add16(sum, load_row<decltype(full)::value>(x, i, n));
  });
  return sum;
}

/// sum + (x - mean)^2
template <class Row>
HWY_INLINE Vec16 add_squares(Vec16 sum, const Row& x, float mean, int64_t n) {
  const FloatVec means = hn::Set(FloatTag(), mean), one = hn::Set(FloatTag(), 1.0f);
  for_columns(0, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 deviation = normalised16(load_row<kFull>(x, i, n), means, one);
    if constexpr (!kFull) deviation = first16(deviation, n - i);
    sum = fma16(deviation, deviation, sum);
  });
  return sum;
}

/// gamma_offset + gamma. An offset of 0 is added as -0, which leaves every gamma as it is.
template <class P>
class NormFactor {
 public:
  NormFactor(const P& gamma, float offset)
      : gamma_(gamma), offset_(hn::Set(FloatTag(), offset == 0 ? -0.0f : offset)) {}

  template <bool kFull>
  HWY_INLINE Vec16 load(int64_t i, int64_t n) const {
    Vec16 factor = load_row<kFull>(gamma_, i, n);
#pragma GCC unroll 2
    for (int k = 0; k < kParts; ++k) factor.part[k] = hn::Add(factor.part[k], offset_);
    return factor;
  }

 private:
  P gamma_;
  FloatVec offset_;
};

struct RowStatistics {
  float mean = 0, rstd = 0;
};

/// y = x^ factor + beta; `next` is the row that will follow.
template <class X, class Y, class P>
HWY_INLINE void write_normalised(const X& x, const Y& y, const NormFactor<P>& factor, const P& beta,
                                 const X& next, const RowStatistics& row, int64_t n) {
  const FloatVec means = hn::Set(FloatTag(), row.mean), rstds = hn::Set(FloatTag(), row.rstd);
  for_columns(0, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    // This pass does not wait for memory, the next row's first does.
    hwy::Prefetch(next.data + i);
    const Vec16 normalised = normalised16(load_row<kFull>(x, i, n), means, rstds);
    const Vec16 slope = factor.template load<kFull>(i, n);
    const Vec16 out =
        beta ? fma16(normalised, slope, load_row<kFull>(beta, i, n)) : mul16(normalised, slope);
    store_row<kFull>(out, y, i, n);
  });
}

/// The whole of one row of n.
template <class X, class Y, class P>
HWY_INLINE RowStatistics normalise_row(const X& x, const Y& y, const NormFactor<P>& factor,
                                       const P& beta, const X& next, int64_t n, NormKind kind,
                                       float eps) {
  const auto count = static_cast<float>(n);
  RowStatistics row;
  if (kind == NormKind::layer) row.mean = tree_sum16(add_row(set16(0.0f), x, n)) / count;
  const float squares = tree_sum16(add_squares(set16(0.0f), x, row.mean, n));
  row.rstd = 1.0f / std::sqrt(squares / count + eps);
  write_normalised(x, y, factor, beta, next, row, n);
  return row;
}

/// What dx of a row needs of all its elements, g = dy factor.
struct GradientLanes {
  Vec16 g, product;  // sums of g and of g x^
};
HWY_INLINE GradientLanes no_gradients() { return {set16(0.0f), set16(0.0f)}; }
struct GradientMeans {
  float g = 0, product = 0;
};

template <class X, class P>
HWY_INLINE GradientLanes add_gradients(GradientLanes sum, const X& x, const X& dy,
                                       const NormFactor<P>& factor, const RowStatistics& row,
                                       int64_t n) {
  const FloatVec mean = hn::Set(FloatTag(), row.mean), rstd = hn::Set(FloatTag(), row.rstd);
  for_columns(0, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 g = mul16(load_row<kFull>(dy, i, n), factor.template load<kFull>(i, n));
    Vec16 normalised = normalised16(load_row<kFull>(x, i, n), mean, rstd);
    // Beyond the row's end g is 0, and -mean rstd could be infinite.
    if constexpr (!kFull) normalised = first16(normalised, n - i);
    sum.g = add16(sum.g, g);
    sum.product = fma16(g, normalised, sum.product);
  });
  return sum;
}

/// dx = rstd (g - means.g - x^ means.product) + residual, which may be absent.
template <class X, class Y, class P>
HWY_INLINE void write_gradient(const X& x, const X& dy, const X& residual, const Y& dx,
                               const NormFactor<P>& factor, const RowStatistics& row,
                               const GradientMeans& means, int64_t n) {
  const FloatVec mean = hn::Set(FloatTag(), row.mean), rstd = hn::Set(FloatTag(), row.rstd);
  const FloatVec mean_gs = hn::Set(FloatTag(), means.g);
  const FloatVec slope = hn::Set(FloatTag(), means.product);
  for_columns(0, n, [&](int64_t i, auto full) {
    constexpr bool kFull = decltype(full)::value;
    const Vec16 normalised = normalised16(load_row<kFull>(x, i, n), mean, rstd);
    Vec16 out = mul16(load_row<kFull>(dy, i, n), factor.template load<kFull>(i, n));
#pragma GCC unroll 2
    for (int k = 0; k < kParts; ++k) {
      const FloatVec centred = hn::Sub(out.part[k], mean_gs);
      out.part[k] = hn::Mul(hn::NegMulAdd(normalised.part[k], slope, centred), rstd);
    }
    if (residual) out = add16(load_row<kFull>(residual, i, n), out);
    store_row<kFull>(out, dx, i, n);
  });
}

/// dx of the whole of one row.
template <class X, class Y, class P>
HWY_INLINE void backward_row(const X& x, const X& dy, const X& residual, const Y& dx,
                             const NormFactor<P>& factor, const RowStatistics& row, int64_t n,
                             NormKind kind) {
  const auto count = static_cast<float>(n);
  const GradientLanes sum = add_gradients(no_gradients(), x, dy, factor, row, n);
  GradientMeans means;
  if (kind == NormKind::layer) means.g = tree_sum16(sum.g) / count;
  means.product = tree_sum16(sum.product) / count;
  write_gradient(x, dy, residual, dx, factor, row, means, n);
}

/// kRows rows as the parameters' chains take them, one after another.
template <class X, int kRows>
struct ChainRows {
  X x[kRows], dy[kRows];
  FloatVec mean[kRows], rstd[kRows];

  void set(int r, const X& row, const X& gradient, const RowStatistics& statistics) {
    x[r] = row;
    dy[r] = gradient;
    mean[r] = hn::Set(FloatTag(), statistics.mean);
    rstd[r] = hn::Set(FloatTag(), statistics.rstd);
  }
  /// dgamma += dy x^ and dbeta += dy over some columns; either may be absent.
  void add_to(const TypedOutputRow<float>& dgamma, const TypedOutputRow<float>& dbeta,
              Range columns) const {
    const int64_t n = columns.end;
    TypedRow<float> slopes, shifts;
    slopes.data = dgamma.data, shifts.data = dbeta.data;
    for_columns(columns.begin, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      Vec16 slope = slopes ? load_row<kFull>(slopes, i, n) : set16(0.0f);
      Vec16 shift = shifts ? load_row<kFull>(shifts, i, n) : set16(0.0f);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec16 g = load_row<kFull>(dy[r], i, n);
        slope = fma16(g, normalised16(load_row<kFull>(x[r], i, n), mean[r], rstd[r]), slope);
        shift = add16(shift, g);
      }
      if (dgamma) store_row<kFull>(slope, dgamma, i, n);
      if (dbeta) store_row<kFull>(shift, dbeta, i, n);
    });
  }
};

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_NORM_ROWS_INL_H_
