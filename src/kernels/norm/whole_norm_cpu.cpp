// SPDX-License-Identifier: Apache-2.0
// Norms of all heads of a row for f32, bf16 and f16, on the rows of norm_rows-inl.h: threads share
// out the tokens, and for the parameter's chains, which run over tokens, the columns.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/whole_norm_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/norm/head_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

float mean_of(const ConstView& sum_T, int64_t t, int64_t width) {
  return sum_T.absent() ? 0.0f : sum_T.as<float>()[t] / static_cast<float>(width);
}
RowStatistics statistics(const RowTotals& totals, int64_t t) {
  const float variance = totals.squares_T.as<float>()[t] / static_cast<float>(totals.width);
  return {mean_of(totals.sum_T, t, totals.width), 1.0f / std::sqrt(variance + totals.eps)};
}

template <class X>
void sum_heads_of(const WholeNormSums& a, Range rows) {
  const int64_t partials = a.sums_PT.size(0), run = a.x_TND.num_heads / partials;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const float mean = mean_of(a.sum_T, t, a.width);
    for (int64_t p = 0; p < partials; ++p) {
      Vec16 sum = set16(0.0f);
      for (int64_t h = p * run; h < (p + 1) * run; ++h) {
        const X x = head_row<X>(a.x_TND, t, h);
        sum = a.squares ? add_squares(sum, x, mean, a.x_TND.head_size)
                        : add_row(sum, x, a.x_TND.head_size);
      }
      a.sums_PT.row<float>(p)[t] = tree_sum16(sum);
    }
  }
}
void sum_heads(const WholeNormSums& a, Range rows) {
  with_rows({a.x_TND.dtype}, DType::f32,
            [&](auto x, auto, auto) { sum_heads_of<decltype(x)>(a, rows); });
}

template <class X, class Y, class P>
void forward_heads_of(const WholeNormForward& a, Range rows) {
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const RowStatistics row = statistics(a.totals, t);
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      const X x = head_row<X>(a.x_TND, t, h);
      const X next = head_row<X>(a.x_TND, std::min(t + 1, rows.end - 1), h);
      const NormFactor<P> factor(P(a.gamma_ND, h), a.gamma_offset);
      write_normalised(x, head_row<Y>(a.y_TND, t, h), factor, P(), next, row, a.x_TND.head_size);
    }
  }
}
void forward_heads(const WholeNormForward& a, Range rows) {
  with_rows({a.x_TND.dtype, a.y_TND.dtype}, a.gamma_ND.dtype(), [&](auto x, auto y, auto p) {
    forward_heads_of<decltype(x), decltype(y), decltype(p)>(a, rows);
  });
}

template <class X, class P>
void sum_gradients_of(const WholeNormGradientSums& a, Range rows) {
  const int64_t partials = a.products_PT.size(0), run = a.x_TND.num_heads / partials;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const RowStatistics row = statistics(a.totals, t);
    for (int64_t p = 0; p < partials; ++p) {
      GradientLanes sum = no_gradients();
      for (int64_t h = p * run; h < (p + 1) * run; ++h) {
        const NormFactor<P> factor(P(a.gamma_ND, h), a.gamma_offset);
        sum = add_gradients(sum, head_row<X>(a.x_TND, t, h), head_row<X>(a.dy_TND, t, h), factor,
                            row, a.x_TND.head_size);
      }
      if (!a.sums_PT.absent()) a.sums_PT.row<float>(p)[t] = tree_sum16(sum.g);
      a.products_PT.row<float>(p)[t] = tree_sum16(sum.product);
    }
  }
}
void sum_gradients(const WholeNormGradientSums& a, Range rows) {
  with_rows({a.x_TND.dtype, a.dy_TND.dtype}, a.gamma_ND.dtype(),
            [&](auto x, auto, auto p) { sum_gradients_of<decltype(x), decltype(p)>(a, rows); });
}

template <class X, class Y, class P>
void backward_heads_of(const WholeNormBackward& a, Range rows) {
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const RowStatistics row = statistics(a.totals, t);
    const GradientMeans means = {mean_of(a.sum_g_T, t, a.totals.width),
                                 mean_of(a.product_T, t, a.totals.width)};
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      const NormFactor<P> factor(P(a.gamma_ND, h), a.gamma_offset);
      write_gradient(head_row<X>(a.x_TND, t, h), head_row<X>(a.dy_TND, t, h), X(),
                     head_row<Y>(a.dx_TND, t, h), factor, row, means, a.x_TND.head_size);
    }
  }
}
void backward_heads(const WholeNormBackward& a, Range rows) {
  with_rows({a.x_TND.dtype, a.dy_TND.dtype, a.dx_TND.dtype}, a.gamma_ND.dtype(),
            [&](auto x, auto y, auto p) {
              backward_heads_of<decltype(x), decltype(y), decltype(p)>(a, rows);
            });
}

/// The chains of kRows rows, from row t, over some columns of a head.
template <class X, int kRows>
void add_weight_rows(const WholeNormWeightGradient& a, Range rows, int64_t t, int64_t h,
                     Range columns) {
  ChainRows<X, kRows> chain;
  for (int r = 0; r < kRows; ++r) {
    chain.set(r, head_row<X>(a.x_TND, t + r, h), head_row<X>(a.dy_TND, t + r, h),
              statistics(a.totals, t + r));
    const int64_t ahead = std::min(t + r + kRows, rows.end - 1);
    prefetch_columns(a.x_TND, ahead, h, columns);
    prefetch_columns(a.dy_TND, ahead, h, columns);
  }
  chain.add_to({a.dgamma_ND, h}, {View(), 0}, columns);
}
void add_weights(const WholeNormWeightGradient& a, Range rows, int64_t h, Range columns) {
  with_rows({a.x_TND.dtype, a.dy_TND.dtype}, DType::f32, [&](auto x, auto, auto) {
    using X = decltype(x);
    int64_t t = rows.begin;
    for (; t + 4 <= rows.end; t += 4) add_weight_rows<X, 4>(a, rows, t, h, columns);
    for (; t < rows.end; ++t) add_weight_rows<X, 1>(a, rows, t, h, columns);
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kGrainElements = 8192;     // less is not worth another thread
constexpr int64_t kBlockBytes = 256 * 1024;  // x and dy of a block, per thread: a quarter of the L2
constexpr int64_t kColumns = 64;             // of a head, dealt to a thread at least

int64_t row_elements(const ConstHeadsView& x) {
  return std::max<int64_t>(1, x.num_heads * x.head_size);
}
int64_t grain_of(const ConstHeadsView& x) {
  return std::max<int64_t>(1, kGrainElements / row_elements(x));
}

}  // namespace

void whole_norm_sums_simd(Exec& exec, const WholeNormSums& a) {
  exec.device.pool().for_range(a.x_TND.num_rows, grain_of(a.x_TND),
                               [&](Range rows, int) { MEGA_CALL_SIMD(exec, sum_heads, a, rows); });
}
void whole_norm_forward_simd(Exec& exec, const WholeNormForward& a) {
  exec.device.pool().for_range(a.x_TND.num_rows, grain_of(a.x_TND), [&](Range rows, int) {
    MEGA_CALL_SIMD(exec, forward_heads, a, rows);
  });
}
void whole_norm_gradient_sums_simd(Exec& exec, const WholeNormGradientSums& a) {
  exec.device.pool().for_range(a.x_TND.num_rows, grain_of(a.x_TND), [&](Range rows, int) {
    MEGA_CALL_SIMD(exec, sum_gradients, a, rows);
  });
}
void whole_norm_backward_simd(Exec& exec, const WholeNormBackward& a) {
  exec.device.pool().for_range(a.x_TND.num_rows, grain_of(a.x_TND), [&](Range rows, int) {
    MEGA_CALL_SIMD(exec, backward_heads, a, rows);
  });
}

void whole_norm_weight_gradient_simd(Exec& exec, const WholeNormWeightGradient& a) {
  ThreadPool& pool = exec.device.pool();
  const int64_t num_rows = a.x_TND.num_rows, head_size = a.x_TND.head_size;
  const int64_t row_bytes =
      row_elements(a.x_TND) * (bytes_of(a.x_TND.dtype) + bytes_of(a.dy_TND.dtype));
  const int64_t block = std::max<int64_t>(8, pool.num_threads() * kBlockBytes / row_bytes);
  const int64_t pieces = ceil_div(head_size, kColumns);
  for (int64_t begin = 0; begin < num_rows; begin += block) {
    const Range rows = {begin, std::min(num_rows, begin + block)};
    const int64_t grain = std::max<int64_t>(1, kGrainElements / (rows.size() * kColumns));
    pool.for_range(a.x_TND.num_heads * pieces, grain, [&](Range items, int) {
      for (int64_t item = items.begin; item < items.end; ++item) {
        const int64_t column = item % pieces * kColumns;
        const Range columns = {column, std::min(head_size, column + kColumns)};
        MEGA_CALL_SIMD(exec, add_weights, a, rows, item / pieces, columns);
      }
    });
  }
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
