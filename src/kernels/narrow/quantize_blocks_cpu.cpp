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

template <class X, class Y>
HWY_INLINE void write_numbers(const X* x, Y* y, int64_t n, FloatVec scale) {
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) store(hn::Mul(load(x + i), scale), y + i);
  if (i < n) store_some(hn::Mul(load_first(x + i, n - i), scale), y + i, n - i);
}
template <class X, class Y>
void dequantize_block_row(const DequantizeBlocks& a, int64_t row) {
  const X* x = a.x.row<X>(row);
  Y* y = a.y.row<Y>(row);
  const int64_t columns = a.x.size(1), first = row / a.block_rows * a.scales.row_stride();
  const auto scale_at = [&](int64_t block) {
    return a.scales.dtype() == DType::f32 ? a.scales.as<float>()[first + block]
                                          : to_f32(a.scales.as<f8_e8m0_t>()[first + block]);
  };
  if (a.block_columns > 1) {
    for (int64_t c = 0; c < columns; c += a.block_columns) {
      write_numbers(x + c, y + c, std::min(a.block_columns, columns - c),
                    hn::Set(FloatTag(), scale_at(c / a.block_columns)));
    }
    return;
  }
  for (int64_t c = 0; c < columns; c += kFloatLanes) {
    const int64_t n = std::min<int64_t>(kFloatLanes, columns - c);
    HWY_ALIGN float scales[kFloatLanes] = {};
    for (int64_t i = 0; i < n; ++i) scales[i] = scale_at(c + i);
    write_numbers(x + c, y + c, n, hn::Load(FloatTag(), scales));
  }
}
void block_numbers(const DequantizeBlocks& a, int64_t row) {
  const bool bf16 = a.y.dtype() == DType::bf16, e4m3 = a.x.dtype() == DType::f8_e4m3;
  const auto run = bf16 ? (e4m3 ? dequantize_block_row<f8_e4m3_t, bf16_t>
                                : dequantize_block_row<f8_e5m2_t, bf16_t>)
                        : (e4m3 ? dequantize_block_row<f8_e4m3_t, float>
                                : dequantize_block_row<f8_e5m2_t, float>);
  run(a, row);
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

void dequantize_blocks_simd(Exec& exec, const DequantizeBlocks& arguments) {
  constexpr int64_t kGrain = 16384;  // elements that are worth another thread
  const DequantizeBlocks& a = arguments;
  if (a.x.num_elements() == 0) return;
  exec.device.pool().for_range(a.x.size(0), std::max<int64_t>(1, kGrain / a.x.size(1)),
                               [&](Range range, int) {
                                 for (int64_t row = range.begin; row < range.end; ++row) {
                                   MEGA_CALL_SIMD(exec, block_numbers, a, row);
                                 }
                               });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
