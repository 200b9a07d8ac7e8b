// SPDX-License-Identifier: Apache-2.0
// Quantisation with a scale for each block, by vectors: a band of blocks at a time, read twice, the
// second time from the cache.
#include <algorithm>

#include "kernels/elementary/dispatch.h"
#include "kernels/narrow/block_factors.h"
#include "kernels/narrow/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow/quantize_blocks_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/narrow/narrow_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// Part of a band of blocks: `rows` rows of `columns` columns, at most kFloatLanes where each
/// column is a block of its own (`kByColumn`), else one block.
template <bool kByColumn, class X>
HWY_INLINE void magnitudes(const X* x, int64_t stride, int64_t rows, int64_t columns, float* out) {
  FloatVec amax = hn::Zero(FloatTag());
  for (int64_t t = 0; t < rows; ++t, x += stride) {
    int64_t i = 0;
    for (; i + kFloatLanes <= columns; i += kFloatLanes) amax = larger_magnitude(amax, load(x + i));
    if (i < columns) amax = larger_magnitude(amax, load_first(x + i, columns - i));
  }
  if constexpr (kByColumn) {
    store_some(amax, out, columns);
  } else {
    *out = hn::GetLane(hn::MaxOfLanes(FloatTag(), amax));
  }
}

template <class X, class Y>
HWY_INLINE void write_codes(const X* x, Y* y, int64_t n, FloatVec factor) {
  const WordVec top = overflow_code<Y>(Overflow::saturate);
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) {
    store_codes(float8_codes<Y>(hn::Mul(load(x + i), factor), top), y + i);
  }
  if (i == n) return;
  const FloatVec rest = hn::Mul(load_first(x + i, n - i), factor);
  store_first_codes(float8_codes<Y>(rest, top), y + i, n - i);
}

/// One piece of a band: a block, or kFloatLanes columns that are blocks.
template <bool kByColumn, class X, class Y>
void quantize_part(const QuantizeBlocks& a, int64_t band, int64_t column, int64_t columns) {
  const int64_t row = band * a.block_rows, rows = std::min(a.block_rows, a.x.size(0) - row);
  const X* x = a.x.row<X>(row) + column;
  HWY_ALIGN float factors[kFloatLanes] = {};
  magnitudes<kByColumn>(x, a.x.row_stride(), rows, columns, factors);
  const int64_t blocks = kByColumn ? columns : 1, first = column / a.block_columns;
  for (int64_t i = 0; i < blocks; ++i)
    factors[i] = write_block_scale(a, band, first + i, factors[i]);
  const FloatTag df;
  const FloatVec factor = kByColumn ? hn::Load(df, factors) : hn::Set(df, factors[0]);
  for (int64_t t = 0; t < rows; ++t) {
    write_codes(x + t * a.x.row_stride(), a.y.row<Y>(row + t) + column, columns, factor);
  }
}

template <bool kByColumn, class X, class Y>
void quantize_band(const QuantizeBlocks& a, int64_t band) {
  const int64_t step = kByColumn ? kFloatLanes : a.block_columns;
  for (int64_t column = 0; column < a.x.size(1); column += step) {
    quantize_part<kByColumn, X, Y>(a, band, column, std::min(step, a.x.size(1) - column));
  }
}

template <class X, class Y>
void quantize_typed(const QuantizeBlocks& a, int64_t band) {
  if (a.block_columns == 1) {
    quantize_band<true, X, Y>(a, band);
  } else {
    quantize_band<false, X, Y>(a, band);
  }
}

void block_band(const QuantizeBlocks& a, int64_t band) {
  const bool e4m3 = a.y.dtype() == DType::f8_e4m3;
  if (a.x.dtype() == DType::bf16) {
    e4m3 ? quantize_typed<bf16_t, f8_e4m3_t>(a, band) : quantize_typed<bf16_t, f8_e5m2_t>(a, band);
  } else {
    e4m3 ? quantize_typed<float, f8_e4m3_t>(a, band) : quantize_typed<float, f8_e5m2_t>(a, band);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void quantize_blocks_simd(Exec& exec, const QuantizeBlocks& arguments) {
  constexpr int64_t kGrain = 8192;  // elements that are worth another thread
  const QuantizeBlocks& a = arguments;
  if (a.x.num_elements() == 0) return;
  const int64_t elements = std::max<int64_t>(1, a.block_rows * a.x.size(1));
  exec.device.pool().for_range(a.scales.size(0), std::max<int64_t>(1, kGrain / elements),
                               [&](Range range, int) {
                                 for (int64_t band = range.begin; band < range.end; ++band) {
                                   MEGA_CALL_SIMD(exec, block_band, a, band);
                                 }
                               });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
