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

/// What is written of n numbers of a block, or of n blocks: codes of Y.
template <class Y>
struct Codes {
  using To = Y;
  template <class X>
  static HWY_INLINE void write(const X* x, Y* y, int64_t n, FloatVec factor, FloatVec) {
    const WordVec top = overflow_code<Y>(Overflow::saturate);
    int64_t i = 0;
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      store_codes(float8_codes<Y>(hn::Mul(load(x + i), factor), top), y + i);
    }
    if (i == n) return;
    const FloatVec rest = hn::Mul(load_first(x + i, n - i), factor);
    store_first_codes(float8_codes<Y>(rest, top), y + i, n - i);
  }
};

/// The numbers that codes of Code stand for.
template <class Code, class Y>
struct Numbers {
  using To = Y;
  template <class X>
  static HWY_INLINE void write(const X* x, Y* y, int64_t n, FloatVec factor, FloatVec inverse) {
    const auto rounded = [&](FloatVec v) HWY_ATTR {
      return hn::Mul(float8_numbers<Code>(hn::Mul(v, factor)), inverse);
    };
    int64_t i = 0;
    for (; i + kFloatLanes <= n; i += kFloatLanes) store(rounded(load(x + i)), y + i);
    if (i < n) store_some(rounded(load_first(x + i, n - i)), y + i, n - i);
  }
};

/// Blocks side by side whose magnitudes are found before the first is written: what makes a scale
/// of each, a long chain, overlaps then. All of them stay in the first-level cache.
constexpr int64_t kMostBlocks = 16;
constexpr int64_t kMostElements = 4096;

template <class Writer, class X>
void pass_over_columns(const BlockPass& a, int64_t band, Range columns) {
  using Y = typename Writer::To;
  const int64_t row = band * a.block_rows, rows = std::min(a.block_rows, a.x.size(0) - row);
  const int64_t first = columns.begin / a.block_columns;
  const X* const x = a.x.row<X>(row);
  BlockScale scale[kMostBlocks];
  for (int64_t c = columns.begin, i = 0; c < columns.end; c += a.block_columns, ++i) {
    float amax = 0;
    magnitudes<false>(x + c, a.x.row_stride(), rows, std::min(a.block_columns, columns.end - c),
                      &amax);
    scale[i] = scale_of_block(a, band, first + i, amax);
  }
  for (int64_t c = columns.begin, i = 0; c < columns.end; c += a.block_columns, ++i) {
    const FloatVec factor = hn::Set(FloatTag(), scale[i].factor);
    const FloatVec inverse = hn::Set(FloatTag(), scale[i].inverse);
    for (int64_t t = 0; t < rows; ++t)
      Writer::write(x + t * a.x.row_stride() + c, a.y.row<Y>(row + t) + c,
                    std::min(a.block_columns, columns.end - c), factor, inverse);
  }
}

/// At most kFloatLanes columns, each a block.
template <class Writer, class X>
void pass_over_lanes(const BlockPass& a, int64_t band, Range columns) {
  using Y = typename Writer::To;
  const int64_t row = band * a.block_rows, rows = std::min(a.block_rows, a.x.size(0) - row);
  const X* const x = a.x.row<X>(row) + columns.begin;
  HWY_ALIGN float amax[kFloatLanes], factors[kFloatLanes] = {}, inverses[kFloatLanes] = {};
  magnitudes<true>(x, a.x.row_stride(), rows, columns.size(), amax);
  for (int64_t i = 0; i < columns.size(); ++i) {
    const BlockScale scale = scale_of_block(a, band, columns.begin + i, amax[i]);
    factors[i] = scale.factor;
    inverses[i] = scale.inverse;
  }
  const FloatVec factor = hn::Load(FloatTag(), factors), inverse = hn::Load(FloatTag(), inverses);
  for (int64_t t = 0; t < rows; ++t)
    Writer::write(x + t * a.x.row_stride(), a.y.row<Y>(row + t) + columns.begin, columns.size(),
                  factor, inverse);
}

template <class Writer, class X>
void pass_over_band(const BlockPass& a, int64_t band) {
  const bool by_lane = a.block_columns == 1;
  const int64_t blocks =
      std::clamp<int64_t>(kMostElements / (a.block_rows * a.block_columns), 1, kMostBlocks);
  const int64_t step = by_lane ? kFloatLanes : blocks * a.block_columns;
  for (int64_t begin = 0; begin < a.x.size(1); begin += step) {
    const Range columns{begin, std::min(begin + step, a.x.size(1))};
    by_lane ? pass_over_lanes<Writer, X>(a, band, columns)
            : pass_over_columns<Writer, X>(a, band, columns);
  }
}

template <class X>
void pass_of_type(const BlockPass& a, int64_t band) {
  const bool e4m3 = a.code == DType::f8_e4m3, bf16 = a.y.dtype() == DType::bf16;
  if (!a.scales.absent()) {
    return e4m3 ? pass_over_band<Codes<f8_e4m3_t>, X>(a, band)
                : pass_over_band<Codes<f8_e5m2_t>, X>(a, band);
  }
  if (e4m3) {
    return bf16 ? pass_over_band<Numbers<f8_e4m3_t, bf16_t>, X>(a, band)
                : pass_over_band<Numbers<f8_e4m3_t, float>, X>(a, band);
  }
  return bf16 ? pass_over_band<Numbers<f8_e5m2_t, bf16_t>, X>(a, band)
              : pass_over_band<Numbers<f8_e5m2_t, float>, X>(a, band);
}

void block_band(const BlockPass& a, int64_t band) {
  a.x.dtype() == DType::bf16 ? pass_of_type<bf16_t>(a, band) : pass_of_type<float>(a, band);
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

namespace {

void run_pass(Exec& exec, const BlockPass& a) {
  constexpr int64_t kGrain = 8192;  // elements that are worth another thread
  if (a.x.num_elements() == 0) return;
  const int64_t elements = std::max<int64_t>(1, a.block_rows * a.x.size(1));
  const int64_t bands = (a.x.size(0) + a.block_rows - 1) / a.block_rows;
  exec.device.pool().for_range(bands, std::max<int64_t>(1, kGrain / elements),
                               [&](Range range, int) {
                                 for (int64_t band = range.begin; band < range.end; ++band) {
                                   MEGA_CALL_SIMD(exec, block_band, a, band);
                                 }
                               });
}

}  // namespace

void quantize_blocks_simd(Exec& exec, const QuantizeBlocks& a) {
  run_pass(exec, {a.x, a.y, a.scales, a.y.dtype(), a.scales.dtype(), a.block_rows, a.block_columns,
                  a.rule});
}

void round_blocks_simd(Exec& exec, const RoundBlocks& a) {
  run_pass(exec, {a.x, a.y, {}, a.code, a.scale, a.block_rows, a.block_columns, a.rule});
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
