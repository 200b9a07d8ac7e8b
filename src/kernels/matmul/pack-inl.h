// SPDX-License-Identifier: Apache-2.0
// Packing of panels: neighbours of the index i lie side by side in one vector or two, k going down;
// bf16 is widened on the way. Where k is the contiguous index of the source, vectors are transposed
// in registers. Lanes beyond a panel's last i hold arbitrary numbers, which enter only sums that
// are thrown away. Included once per instruction set.
#if defined(MEGA_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_PACK_INL_H
#undef MEGA_PACK_INL_H
#else
#define MEGA_PACK_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/elementary/simd_math-inl.h"
#include "kernels/matmul/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

inline constexpr int kLanes = static_cast<int>(kFloatLanes);

/// Word j of four rows' 128-bit blocks, for the four blocks that meet in v[0..3]: two rounds of
/// interleaving inside blocks.
HWY_INLINE void transpose_blocks(const WordVec v[4], WordVec word[4]) {
  const WordTag d;
  const hn::Repartition<uint64_t, WordTag> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  word[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  word[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  word[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  word[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

/// One vector of 32-bit words from each of kLanes rows (`row(r)` points to row r's): v[c][r] gets
/// 128-bit block c of rows r, r + 4, (r + 8, r + 12), so that transpose_blocks(v[c]) gives words 4c
/// .. 4c + 3 of all rows. Whole vectors are read, so that on AVX-512 every cache line is touched
/// once: rows a multiple of 4 KiB apart share a set of the first-level cache and would drive each
/// other out.
template <typename Row>
HWY_INLINE void load_blocks(const Row& row, WordVec v[kLanes / 4][4]) {
  const auto at = [&](int r) HWY_ATTR {
    return hn::LoadU(WordTag(), reinterpret_cast<const uint32_t*>(row(r)));
  };
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
#if HWY_CAP_GE512
    const auto a = at(r).raw, b = at(r + 4).raw, c = at(r + 8).raw, d = at(r + 12).raw;
    const auto ab02 = _mm512_shuffle_i32x4(a, b, 0x88), cd02 = _mm512_shuffle_i32x4(c, d, 0x88);
    const auto ab13 = _mm512_shuffle_i32x4(a, b, 0xdd), cd13 = _mm512_shuffle_i32x4(c, d, 0xdd);
    v[0][r] = WordVec{_mm512_shuffle_i32x4(ab02, cd02, 0x88)};
    v[1][r] = WordVec{_mm512_shuffle_i32x4(ab13, cd13, 0x88)};
    v[2][r] = WordVec{_mm512_shuffle_i32x4(ab02, cd02, 0xdd)};
    v[3][r] = WordVec{_mm512_shuffle_i32x4(ab13, cd13, 0xdd)};
#else
    const WordVec a = at(r), b = at(r + 4);
    v[0][r] = hn::ConcatLowerLower(WordTag(), b, a);
    v[1][r] = hn::ConcatUpperUpper(WordTag(), b, a);
#endif
  }
}

/// The f32 vectors of consecutive k in transposed words: one per word, or two for a pair of bf16.
template <typename T>
inline constexpr int kPerWord = static_cast<int>(4 / sizeof(T));
template <typename T>
HWY_INLINE FloatVec widened_half(WordVec word, int which) {
  if constexpr (sizeof(T) == 4) return hn::BitCast(FloatTag(), word);
  if (which == 0) return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(word));
  return hn::BitCast(FloatTag(), hn::And(word, hn::Set(WordTag(), 0xffff0000u)));
}

/// kLanes rows starting at `from` (those from `rows` on repeat the last), `k` elements of each,
/// written with k going down: out[k * kPitch + row].
template <int kPitch, typename T>
void pack_transposed(const T* from, int64_t stride, int rows, int64_t k, float* out) {
  constexpr int kStep = kLanes * kPerWord<T>;
  const T* start[kLanes];
  for (int r = 0; r < kLanes; ++r) start[r] = from + std::min(r, rows - 1) * stride;
  const auto pack = [&](const auto& row, int64_t at, int count) HWY_ATTR {
    WordVec v[kLanes / 4][4];
    WordVec word[kLanes];
    load_blocks(row, v);
#pragma GCC unroll 4
    for (int c = 0; c < kLanes / 4; ++c) transpose_blocks(v[c], word + 4 * c);
#pragma GCC unroll 32
    for (int j = 0; j < kStep; ++j) {
      if (j < count)
        hn::Store(widened_half<T>(word[j / kPerWord<T>], j % kPerWord<T>), FloatTag(),
                  out + (at + j) * kPitch);
    }
  };
  int64_t at = 0;
  for (; at + kStep <= k; at += kStep)
    pack([&](int r) HWY_ATTR { return start[r] + at; }, at, kStep);
  if (at == k) return;
  T rest[kLanes][kStep] = {};
  for (int r = 0; r < kLanes; ++r)
    for (int64_t j = at; j < k; ++j) rest[r][j - at] = start[r][j];
  pack([&](int r) HWY_ATTR { return rest[r]; }, at, static_cast<int>(k - at));
}

/// `kVectors` vectors of neighbours i at each k.
template <int kVectors, typename T>
HWY_INLINE void pack_straight(const T* from, int64_t stride, int64_t k, float* out) {
  for (int64_t at = 0; at < k; ++at) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      store(load(from + at * stride + v * kLanes), out + (at * kVectors + v) * kLanes);
  }
}

/// The same for a panel whose vectors would reach beyond the source: `count` elements, then zeros.
template <int kPitch, typename T>
void pack_straight_edge(const T* from, int64_t stride, int64_t count, int64_t k, float* out) {
  for (int64_t at = 0; at < k; ++at) {
    for (int64_t i = 0; i < count; ++i) out[at * kPitch + i] = to_f32(from[at * stride + i]);
    for (int64_t i = count; i < kPitch; ++i) out[at * kPitch + i] = 0;
  }
}

/// Panels of `width` <= kVectors * kLanes neighbours for i in [i, i + count) and k in
/// [k_begin, k_begin + k), one after another, k * kVectors * kLanes floats each.
template <int kVectors, typename T>
void pack_panels(const Operand& operand, int64_t i, int64_t count, int64_t k_begin, int64_t k,
                 float* out, int64_t width) {
  constexpr int kPitch = kVectors * kLanes;
  const T* base = reinterpret_cast<const T*>(operand.data);
  if (operand.k_contiguous) {
    for (int64_t p = 0; p < count; p += width, out += kPitch * k) {
      const int64_t rows = std::min(width, count - p);
      const T* from = base + (i + p) * operand.stride + k_begin;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t first = std::min<int64_t>(v * kLanes, rows - 1);
        pack_transposed<kPitch>(from + first * operand.stride, operand.stride,
                                static_cast<int>(std::min<int64_t>(rows - first, kLanes)), k,
                                out + v * kLanes);
      }
    }
    return;
  }
  // Rows are read in pieces of a few panels: whole cache lines, and few pages at a time.
  constexpr int64_t kRowsAtOnce = 8;
  const T* from = base + k_begin * operand.stride + i;
  int64_t fast = count / width;  // panels whose vector loads stay inside the row
  while (fast > 0 && (fast - 1) * width + kPitch > count) --fast;
  for (int64_t at = 0; at < k; at += kRowsAtOnce) {
    for (int64_t p = 0; p < fast; ++p)
      pack_straight<kVectors>(from + at * operand.stride + p * width, operand.stride,
                              std::min(kRowsAtOnce, k - at), out + (p * k + at) * kPitch);
  }
  for (int64_t p = fast; p * width < count; ++p)
    pack_straight_edge<kPitch>(from + p * width, operand.stride, std::min(width, count - p * width),
                               k, out + p * kPitch * k);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
