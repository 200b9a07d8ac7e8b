// SPDX-License-Identifier: Apache-2.0
// Quantisation with one scale by vectors: bound by memory, one pass, the transposed copy included.
#include <atomic>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"
#include "kernels/narrow/transpose_bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow/quantize_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/narrow/narrow_vectors-inl.h"

#ifndef MEGA_KERNELS_NARROW_QUANTIZE_CPU_ONCE_
#define MEGA_KERNELS_NARROW_QUANTIZE_CPU_ONCE_
namespace megalith::kernels {
/// Of a part of a tensor.
struct QuantizeTally {
  float amax = 0;
  int64_t counts[kQuantizeCounts] = {};
};
}  // namespace megalith::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// What counts[0] and [1] compare the products and codes with, and the sums.
template <class Y>
struct Counter {
  FloatVec beyond;  // the least magnitude that no longer rounds to a finite code
  int64_t counts[kQuantizeCounts] = {};

  Counter() {
    // Half a unit above the largest number; that tie goes to the (even) code that is no number.
    using Format = Float8Format<Y>;
    constexpr uint32_t kUnit = 1u << (23 - Format::kMantissa);
    constexpr uint32_t kLargest =
        (Format::kLargest << (23 - Format::kMantissa)) + (uint32_t{127 - Format::kBias} << 23);
    // e4m3's largest code is even and takes the tie.
    constexpr uint32_t kLeast = kLargest + kUnit / 2 + (Format::kLargest % 2 == 0 ? 1 : 0);
    beyond = hn::BitCast(FloatTag(), hn::Set(WordTag(), kLeast));
  }
  HWY_INLINE void add(FloatVec v, FloatVec scaled, WordVec codes) {
    const FloatTag df;
    const auto finite = hn::IsFinite(v);
    const auto zero_code = hn::Eq(hn::And(codes, hn::Set(WordTag(), 0x7f)), hn::Zero(WordTag()));
    const auto saturated = hn::And(finite, hn::Ge(hn::Abs(scaled), beyond));
    const auto flushed =
        hn::And(hn::Ne(v, hn::Zero(df)), hn::And(finite, hn::RebindMask(df, zero_code)));
    counts[0] += static_cast<int64_t>(hn::CountTrue(df, saturated));
    counts[1] += static_cast<int64_t>(hn::CountTrue(df, flushed));
    counts[2] += static_cast<int64_t>(hn::CountTrue(df, hn::Not(finite)));
  }
};

template <bool kCount, class X, class Y>
HWY_INLINE void quantize_vectors(const X* x, Y* y, int64_t n, float by, QuantizeTally& tally) {
  const FloatTag df;
  const FloatVec scale = hn::Set(df, by);
  const WordVec top = overflow_code<Y>(Overflow::saturate);
  FloatVec amax = hn::Zero(df);
  Counter<Y> counter;
  const auto codes_of = [&](FloatVec v) {
    amax = larger_magnitude(amax, v);
    const FloatVec scaled = hn::Mul(v, scale);
    const WordVec codes = float8_codes<Y>(scaled, top);
    if constexpr (kCount) counter.add(v, scaled, codes);
    return codes;
  };
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) store_codes(codes_of(load(x + i)), y + i);
  // The lanes beyond the end are +0, which counts for nothing.
  if (i < n) store_first_codes(codes_of(load_first(x + i, n - i)), y + i, n - i);
  tally.amax = std::max(tally.amax, hn::GetLane(hn::MaxOfLanes(df, amax)));
  if constexpr (kCount) {
    for (int64_t k = 0; k < kQuantizeCounts; ++k) tally.counts[k] += counter.counts[k];
  }
}

template <class X, class Y>
void quantize_typed(const Quantize& a, int64_t row, int64_t begin, int64_t end,
                    QuantizeTally& tally) {
  const float scale = *a.scale.as<float>();
  const X* x = a.x.row<X>(row) + begin;
  Y* y = a.y.row<Y>(row) + begin;
  if (a.counts.absent()) {
    quantize_vectors<false>(x, y, end - begin, scale, tally);
  } else {
    quantize_vectors<true>(x, y, end - begin, scale, tally);
  }
}
void quantize_piece(const Quantize& a, int64_t row, int64_t begin, int64_t end,
                    QuantizeTally& tally) {
  const bool bf16 = a.x.dtype() == DType::bf16, e4m3 = a.y.dtype() == DType::f8_e4m3;
  const auto run =
      bf16 ? (e4m3 ? quantize_typed<bf16_t, f8_e4m3_t> : quantize_typed<bf16_t, f8_e5m2_t>)
           : (e4m3 ? quantize_typed<float, f8_e4m3_t> : quantize_typed<float, f8_e5m2_t>);
  run(a, row, begin, end, tally);
}

template <class X, class Y>
void dequantize_typed(const Dequantize& a, int64_t row, int64_t begin, int64_t end) {
  const FloatVec scale = hn::Set(FloatTag(), *a.scale.as<float>());
  const X* x = a.x.row<X>(row) + begin;
  Y* y = a.y.row<Y>(row) + begin;
  const int64_t n = end - begin;
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) store(hn::Mul(load(x + i), scale), y + i);
  if (i < n) store_some(hn::Mul(load_first(x + i, n - i), scale), y + i, n - i);
}
void dequantize_piece(const Dequantize& a, int64_t row, int64_t begin, int64_t end) {
  const bool bf16 = a.y.dtype() == DType::bf16, e4m3 = a.x.dtype() == DType::f8_e4m3;
  const auto run =
      bf16 ? (e4m3 ? dequantize_typed<f8_e4m3_t, bf16_t> : dequantize_typed<f8_e5m2_t, bf16_t>)
           : (e4m3 ? dequantize_typed<f8_e4m3_t, float> : dequantize_typed<f8_e5m2_t, float>);
  run(a, row, begin, end);
}

template <class X>
HWY_INLINE float magnitude_of(const X* x, int64_t n) {
  FloatVec amax = hn::Zero(FloatTag());
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) amax = larger_magnitude(amax, load(x + i));
  if (i < n) amax = larger_magnitude(amax, load_first(x + i, n - i));
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), amax));
}
float magnitude_piece(const ConstView& x, int64_t row, int64_t begin, int64_t end) {
  return x.dtype() == DType::bf16 ? magnitude_of(x.row<bf16_t>(row) + begin, end - begin)
                                  : magnitude_of(x.row<float>(row) + begin, end - begin);
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

/// What the threads found together; magnitudes are ordered as their bits are.
struct SharedTally {
  std::atomic<uint32_t> amax{0};
  std::atomic<int64_t> counts[kQuantizeCounts] = {};

  void add(const QuantizeTally& tally) {
    const auto bits = std::bit_cast<uint32_t>(tally.amax);
    uint32_t seen = amax.load();
    while (seen < bits && !amax.compare_exchange_weak(seen, bits)) {
    }
    for (int64_t k = 0; k < kQuantizeCounts; ++k) counts[k] += tally.counts[k];
  }
  void store_amax(const View& to) const {
    float& now = *to.as<float>();
    now = std::fmax(now, std::bit_cast<float>(amax.load()));
  }
};

// Codes of 64 rows, a line of the cache in the transposed copy, are turned while they are near;
// calls for fewer columns than these would cost more than their work.
constexpr int64_t kTileRows = 64, kTileColumns = 512;

void quantize_band(Exec& exec, const Quantize& a, int64_t row, int64_t rows, QuantizeTally& tally) {
  for (int64_t column = 0; column < a.x.size(1); column += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, a.x.size(1) - column);
    for (int64_t t = row; t < row + rows; ++t) {
      MEGA_CALL_SIMD(exec, quantize_piece, a, t, column, column + columns, tally);
    }
    transpose_bytes(a.y.data() + row * a.y.row_stride() + column, a.y.row_stride(),
                    a.transposed.data() + column * a.transposed.row_stride() + row,
                    a.transposed.row_stride(), rows, columns);
  }
}

}  // namespace

void quantize_simd(Exec& exec, const Quantize& arguments) {
  Quantize a = arguments;
  const bool turned = !a.transposed.absent();
  const bool flat = !turned && a.x.is_contiguous() && a.y.is_contiguous();
  a.x = flat ? as_one_row(a.x) : as_matrix(a.x);
  a.y = flat ? as_one_row(a.y) : as_matrix(a.y);
  SharedTally shared;
  if (turned && a.x.num_elements() > 0) {
    const int64_t rows = a.x.size(0), bands = (rows + kTileRows - 1) / kTileRows;
    exec.device.pool().for_range(bands, 1, [&](Range range, int) {
      QuantizeTally tally;
      for (int64_t band = range.begin; band < range.end; ++band) {
        quantize_band(exec, a, band * kTileRows, std::min(kTileRows, rows - band * kTileRows),
                      tally);
      }
      shared.add(tally);
    });
  } else if (!turned) {
    for_pieces(exec, a.x.size(0), a.x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
      QuantizeTally tally;
      MEGA_CALL_SIMD(exec, quantize_piece, a, row, begin, end, tally);
      shared.add(tally);
    });
  }
  if (!a.amax.absent()) shared.store_amax(a.amax);
  if (a.counts.absent()) return;
  for (int64_t k = 0; k < kQuantizeCounts; ++k) a.counts.as<int64_t>()[k] += shared.counts[k];
}

void dequantize_simd(Exec& exec, const Dequantize& arguments) {
  Dequantize a = arguments;
  const bool flat = a.x.is_contiguous() && a.y.is_contiguous();
  a.x = flat ? as_one_row(a.x) : as_matrix(a.x);
  a.y = flat ? as_one_row(a.y) : as_matrix(a.y);
  for_pieces(exec, a.x.size(0), a.x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, dequantize_piece, a, row, begin, end);
  });
}

void absolute_maximum_simd(Exec& exec, const AbsoluteMaximum& arguments) {
  const ConstView x =
      arguments.x.is_contiguous() ? as_one_row(arguments.x) : as_matrix(arguments.x);
  SharedTally shared;
  for_pieces(exec, x.size(0), x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    QuantizeTally tally;
    tally.amax = MEGA_CALL_SIMD(exec, magnitude_piece, x, row, begin, end);
    shared.add(tally);
  });
  shared.store_amax(arguments.amax);
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
