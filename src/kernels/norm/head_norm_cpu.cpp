// SPDX-License-Identifier: Apache-2.0
// Norms of heads for f32, bf16 and f16: the rows of norm_rows-inl.h, one per head. Backward goes
// over blocks of rows that stay in the second-level cache twice, as layer_norm_cpu.cpp does: first
// for the parameter's chains, with the partials' columns dealt to the threads, then for dx.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/head_norm_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/norm/head_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

template <class X, class Y, class P>
void forward_heads_of(const HeadNormForward& a, Range rows) {
  const NormFactor<P> factor(P(a.gamma_D, 0), a.gamma_offset);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      const X x = head_row<X>(a.x_TND, t, h);
      const X next = head_row<X>(a.x_TND, std::min(t + 1, rows.end - 1), h);
      const RowStatistics head = normalise_row(x, head_row<Y>(a.y_TND, t, h), factor, P(), next,
                                               a.x_TND.head_size, a.kind, a.eps);
      if (!a.mean_TN.absent()) a.mean_TN.row<float>(t)[h] = head.mean;
      if (!a.rstd_TN.absent()) a.rstd_TN.row<float>(t)[h] = head.rstd;
    }
  }
}
void forward_heads(const HeadNormForward& a, Range rows) {
  with_rows({a.x_TND.dtype, a.y_TND.dtype}, a.gamma_D.dtype(), [&](auto x, auto y, auto p) {
    forward_heads_of<decltype(x), decltype(y), decltype(p)>(a, rows);
  });
}

RowStatistics saved_statistics(const HeadNormBackward& a, int64_t t, int64_t h) {
  return {a.kind == NormKind::layer ? a.mean_TN.row<float>(t)[h] : 0.0f,
          a.rstd_TN.row<float>(t)[h]};
}

template <class X, class Y, class P>
void backward_heads_of(const HeadNormBackward& a, Range rows) {
  const NormFactor<P> factor(P(a.gamma_D, 0), a.gamma_offset);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      backward_row(head_row<X>(a.x_TND, t, h), head_row<X>(a.dy_TND, t, h), X(),
                   head_row<Y>(a.dx_TND, t, h), factor, saved_statistics(a, t, h),
                   a.x_TND.head_size, a.kind);
    }
  }
}
void backward_heads(const HeadNormBackward& a, Range rows) {
  with_rows({a.x_TND.dtype, a.dy_TND.dtype, a.dx_TND.dtype}, a.gamma_D.dtype(),
            [&](auto x, auto y, auto p) {
              backward_heads_of<decltype(x), decltype(y), decltype(p)>(a, rows);
            });
}

/// The heads of one partial over some columns, from number `first` of the chain's order in `rows`
/// on, kHeads at once. Number q is head begin + q % size of row rows.begin + q / size.
template <class X, int kHeads>
void add_heads(const HeadNormBackward& a, Range rows, int64_t partial, int64_t first,
               Range columns) {
  const int64_t size = a.x_TND.num_heads / a.dgamma_PD.size(0);
  ChainRows<X, kHeads> chain;
  for (int r = 0; r < kHeads; ++r) {
    const int64_t t = rows.begin + (first + r) / size, h = partial * size + (first + r) % size;
    chain.set(r, head_row<X>(a.x_TND, t, h), head_row<X>(a.dy_TND, t, h),
              saved_statistics(a, t, h));
    const int64_t ahead = std::min(t + 2, rows.end - 1);
    prefetch_columns(a.x_TND, ahead, h, columns);
    prefetch_columns(a.dy_TND, ahead, h, columns);
  }
  chain.add_to({a.dgamma_PD, partial}, {View(), 0}, columns);
}
void backward_columns(const HeadNormBackward& a, Range rows, int64_t partial, Range columns) {
  const int64_t heads = rows.size() * (a.x_TND.num_heads / a.dgamma_PD.size(0));
  with_rows({a.x_TND.dtype, a.dy_TND.dtype}, DType::f32, [&](auto x, auto, auto) {
    using X = decltype(x);
    int64_t q = 0;
    for (; q + 4 <= heads; q += 4) add_heads<X, 4>(a, rows, partial, q, columns);
    for (; q < heads; ++q) add_heads<X, 1>(a, rows, partial, q, columns);
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
constexpr int64_t kColumns = 16;  // dealt to a thread at least: a vector of the row types

/// Threads share out the columns of all partials: items of kColumns columns in order.
void add_parameters(Exec& exec, const HeadNormBackward& a, Range rows) {
  const int64_t head_size = a.x_TND.head_size, pieces = ceil_div(head_size, kColumns);
  const int64_t partials = a.dgamma_PD.size(0);
  const int64_t item = rows.size() * a.x_TND.num_heads / partials * kColumns;  // elements
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, item));
  exec.device.pool().for_range(partials * pieces, grain, [&](Range items, int) {
    for (int64_t at = items.begin; at < items.end;) {
      const int64_t partial = at / pieces, end = std::min(items.end, (partial + 1) * pieces);
      const Range columns = {at % pieces * kColumns,
                             std::min(head_size, (end - partial * pieces) * kColumns)};
      MEGA_CALL_SIMD(exec, backward_columns, a, rows, partial, columns);
      at = end;
    }
  });
}

}  // namespace

void head_norm_forward_simd(Exec& exec, const HeadNormForward& a) {
  const int64_t row = std::max<int64_t>(1, a.x_TND.num_heads * a.x_TND.head_size);
  exec.device.pool().for_range(
      a.x_TND.num_rows, std::max<int64_t>(1, kGrainElements / row),
      [&](Range rows, int) { MEGA_CALL_SIMD(exec, forward_heads, a, rows); });
}

void head_norm_backward_simd(Exec& exec, const HeadNormBackward& a) {
  ThreadPool& pool = exec.device.pool();
  const int64_t num_rows = a.x_TND.num_rows;
  const int64_t row = std::max<int64_t>(1, a.x_TND.num_heads * a.x_TND.head_size);
  const int64_t row_bytes = row * (bytes_of(a.x_TND.dtype) + bytes_of(a.dy_TND.dtype));
  const int64_t block = std::max<int64_t>(8, pool.num_threads() * kBlockBytes / row_bytes);
  for (int64_t begin = 0; begin < num_rows; begin += block) {
    const Range part = {begin, std::min(num_rows, begin + block)};
    if (!a.dgamma_PD.absent()) add_parameters(exec, a, part);  // first: dx may overwrite dy
    pool.for_range(part.size(), std::max<int64_t>(1, kGrainElements / row), [&](Range rows, int) {
      MEGA_CALL_SIMD(exec, backward_heads, a, Range{begin + rows.begin, begin + rows.end});
    });
  }
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
