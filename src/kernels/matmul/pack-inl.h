// SPDX-License-Identifier: Apache-2.0
// Packing of panels: neighbours of the index i lie side by side in one vector or two, the steps of
// PanelForm (gemm.h) going down. Where k is the contiguous index of the source, vectors are
// transposed in registers. Lanes beyond a panel's last i hold arbitrary numbers, which enter only
// sums that are thrown away. Included once per instruction set.
#if defined(MEGA_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_PACK_INL_H
#undef MEGA_PACK_INL_H
#else
#define MEGA_PACK_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

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
    // (GCC 12 warns of its own form without a mask.)
    constexpr __mmask16 kAll = 0xffff;
    const auto a = at(r).raw, b = at(r + 4).raw, c = at(r + 8).raw, d = at(r + 12).raw;
    const auto ab02 = _mm512_maskz_shuffle_i32x4(kAll, a, b, 0x88);
    const auto cd02 = _mm512_maskz_shuffle_i32x4(kAll, c, d, 0x88);
    const auto ab13 = _mm512_maskz_shuffle_i32x4(kAll, a, b, 0xdd);
    const auto cd13 = _mm512_maskz_shuffle_i32x4(kAll, c, d, 0xdd);
    v[0][r] = WordVec{_mm512_maskz_shuffle_i32x4(kAll, ab02, cd02, 0x88)};
    v[1][r] = WordVec{_mm512_maskz_shuffle_i32x4(kAll, ab13, cd13, 0x88)};
    v[2][r] = WordVec{_mm512_maskz_shuffle_i32x4(kAll, ab02, cd02, 0xdd)};
    v[3][r] = WordVec{_mm512_maskz_shuffle_i32x4(kAll, ab13, cd13, 0xdd)};
#else
    const WordVec a = at(r), b = at(r + 4);
    v[0][r] = hn::ConcatLowerLower(WordTag(), b, a);
    v[1][r] = hn::ConcatUpperUpper(WordTag(), b, a);
#endif
  }
}

/// The f32 vectors of the steps in transposed words: one per word, or two for a pair of 16 bits.
template <typename T>
inline constexpr int kPerWord = static_cast<int>(4 / sizeof(T));
template <typename T>
HWY_INLINE FloatVec widened_half(WordVec word, int which) {
  if constexpr (sizeof(T) == 4) return hn::BitCast(FloatTag(), word);
  if constexpr (std::is_same_v<T, f16_t>) {
    const hn::Rebind<uint16_t, FloatTag> d16;
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    const WordVec half = which == 0 ? word : hn::ShiftRight<16>(word);
    const WordVec low = hn::And(half, hn::Set(WordTag(), 0xffffu));
    return hn::PromoteTo(FloatTag(), hn::BitCast(dh, hn::TruncateTo(d16, low)));
  }
  if (which == 0) return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(word));
  return hn::BitCast(FloatTag(), hn::And(word, hn::Set(WordTag(), 0xffff0000u)));
}

/// Steps that the next `k` elements take.
template <PanelForm kForm>
constexpr int64_t steps_of(int64_t k) {
  return kForm == PanelForm::floats ? k : kForm == PanelForm::words ? (k + 1) / 2 : (k + 1) / 2 * 2;
}

/// kLanes rows starting at `from` (those from `rows` on repeat the last), `k` elements of each,
/// written with the steps going down: out[step * kPitch + row].
template <int kPitch, PanelForm kForm, typename T>
void pack_transposed(const T* from, int64_t stride, int rows, int64_t k, float* out) {
  constexpr int kStep = kLanes * kPerWord<T>;
  constexpr int kSteps = static_cast<int>(steps_of<kForm>(kStep));
  const T* start[kLanes];
  for (int r = 0; r < kLanes; ++r) start[r] = from + std::min(r, rows - 1) * stride;
  const auto pack = [&](const auto& row, float* to, int64_t count) HWY_ATTR {
    WordVec v[kLanes / 4][4];
    WordVec word[kLanes];
    load_blocks(row, v);
#pragma GCC unroll 4
    for (int c = 0; c < kLanes / 4; ++c) transpose_blocks(v[c], word + 4 * c);
#pragma GCC unroll 32
    for (int j = 0; j < kSteps; ++j) {
      if (j >= count) continue;
      if constexpr (kForm == PanelForm::words) {
        hn::Store(word[j], WordTag(), reinterpret_cast<uint32_t*>(to + j * kPitch));
      } else {
        const int half = j % kPerWord<T>;
        const int which = kForm == PanelForm::swapped ? 1 - half : half;
        hn::Store(widened_half<T>(word[j / kPerWord<T>], which), FloatTag(), to + j * kPitch);
      }
    }
  };
  int64_t at = 0;
  for (; at + kStep <= k; at += kStep, out += kSteps * kPitch)
    pack([&](int r) HWY_ATTR { return start[r] + at; }, out, kSteps);
  if (at == k) return;
  T rest[kLanes][kStep] = {};
  for (int r = 0; r < kLanes; ++r)
    for (int64_t j = at; j < k; ++j) rest[r][j - at] = start[r][j];
  pack([&](int r) HWY_ATTR { return rest[r]; }, out, steps_of<kForm>(k - at));
}

/// kLanes neighbours of two rows as words; `odd` may be null.
HWY_INLINE WordVec load_words(const bf16_t* even, const bf16_t* odd) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const auto low =
      hn::PromoteTo(WordTag(), hn::LoadU(d16, reinterpret_cast<const uint16_t*>(even)));
  if (odd == nullptr) return low;
  return hn::Or(low, hn::BitCast(WordTag(), load(odd)));
}

/// `kVectors` vectors of neighbours i at each step.
template <int kVectors, PanelForm kForm, typename T>
HWY_INLINE void pack_straight(const T* from, int64_t stride, int64_t k, float* out) {
  constexpr int kPitch = kVectors * kLanes;
  constexpr int kPerStep = kForm == PanelForm::floats ? 1 : 2;
  for (int64_t at = 0; at < k; at += kPerStep, out += steps_of<kForm>(kPerStep) * kPitch) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const T* first = from + at * stride + v * kLanes;
      const T* second = at + 1 < k ? first + stride : nullptr;
      float* to = out + v * kLanes;
      if constexpr (kForm == PanelForm::words) {
        hn::Store(load_words(first, second), WordTag(), reinterpret_cast<uint32_t*>(to));
      } else if constexpr (kForm == PanelForm::swapped) {
        store(second != nullptr ? load(second) : hn::Zero(FloatTag()), to);
        store(load(first), to + kPitch);
      } else {
        store(load(first), to);
      }
    }
  }
}

/// The same for a panel whose vectors would reach beyond the source: `count` elements, then zeros.
template <int kVectors, PanelForm kForm, typename T>
void pack_straight_edge(const T* from, int64_t stride, int64_t count, int64_t k, float* out) {
  constexpr int kPitch = kVectors * kLanes;
  constexpr int64_t kRows = 2;  // whole pairs
  for (int64_t at = 0; at < k; at += kRows, out += steps_of<kForm>(kRows) * kPitch) {
    T rows[kRows][kPitch] = {};
    const int64_t here = std::min(kRows, k - at);
    for (int64_t r = 0; r < here; ++r)
      std::memcpy(rows[r], from + (at + r) * stride, static_cast<size_t>(count) * sizeof(T));
    pack_straight<kVectors, kForm>(rows[0], kPitch, here, out);
  }
}

/// Panels of `width` <= kVectors * kLanes neighbours for i and the k of a run, one after another in
/// `out`, block_steps * kVectors * kLanes words each, of which the run's begin at step run.step.
template <int kVectors, typename T, PanelForm kForm>
void pack_panels(const Operand& operand, Range i, const KRun& run, int64_t block_steps,
                 int64_t width, float* out) {
  constexpr int kPitch = kVectors * kLanes;
  const T* base = reinterpret_cast<const T*>(operand.data);
  const int64_t k = run.end - run.begin, count = i.size(), distance = kPitch * block_steps;
  out += run.step * kPitch;
  if (operand.k_contiguous) {
    for (int64_t p = 0; p < count; p += width, out += distance) {
      const int64_t rows = std::min(width, count - p);
      const T* from = base + (i.begin + p) * operand.stride + run.begin;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t first = std::min<int64_t>(v * kLanes, rows - 1);
        pack_transposed<kPitch, kForm>(from + first * operand.stride, operand.stride,
                                       static_cast<int>(std::min<int64_t>(rows - first, kLanes)), k,
                                       out + v * kLanes);
      }
    }
    return;
  }
  // Rows are read in pieces of a few panels: whole cache lines, and few pages at a time.
  constexpr int64_t kRowsAtOnce = 8;
  const T* from = base + run.begin * operand.stride + i.begin;
  int64_t fast = count / width;  // panels whose vector loads stay inside the row
  while (fast > 0 && (fast - 1) * width + kPitch > count) --fast;
  for (int64_t at = 0; at < k; at += kRowsAtOnce) {
    float* to = out + steps_of<kForm>(at) * kPitch;
    for (int64_t p = 0; p < fast; ++p)
      pack_straight<kVectors, kForm>(from + at * operand.stride + p * width, operand.stride,
                                     std::min(kRowsAtOnce, k - at), to + p * distance);
  }
  for (int64_t p = fast; p * width < count; ++p)
    pack_straight_edge<kVectors, kForm>(from + p * width, operand.stride,
                                        std::min(width, count - p * width), k, out + p * distance);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
