// SPDX-License-Identifier: Apache-2.0
// The small matrix products of attention in bf16, C[M, N] (f32) = start + A[M, K] B[K, N], by the
// instruction VDPBF16PS, which adds the products of two neighbours in k to an f32 sum. So A and B
// are kept in *words* of two such neighbours (the even k in the low half): A one word at a time at
// any strides, B as rows of words, one row per two k. A tile of up to 12 rows x 32 columns lives in
// registers. The order of an element's sum does not depend on the tile it falls into. For AVX-512
// only; included inside foreach_target's passes.

#if defined(MEGA_ATTENTION_BF16_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#undef MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#else
#define MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention/attention_bf16.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// A: word (m, k / 2) at data[m * row + (k / 2) * step].
struct WordsLeft {
  const uint32_t* data;
  int64_t row;
  int64_t step;
};
/// B: the words of columns n at data[(k / 2) * row + n].
struct WordsRight {
  const uint32_t* data;
  int64_t row;
};
enum class SumStart { zero, carry, scaled };
/// C. With `scaled`, the value it holds is first multiplied by factor[n] of its column.
struct WordsResult {
  float* data;
  int64_t row;
  SumStart start = SumStart::zero;
  const float* factor = nullptr;
};

template <int kRows, int kVectors>
HWY_INLINE void start_tile(const WordsResult& c, __m512 (&sum)[kRows][kVectors]) {
  __m512 factor[kVectors];
#pragma GCC unroll 2
  for (int n = 0; n < kVectors; ++n) {
    factor[n] =
        c.start == SumStart::scaled ? _mm512_loadu_ps(c.factor + 16 * n) : _mm512_set1_ps(1.0f);
  }
#pragma GCC unroll 12
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) {
      sum[m][n] = c.start == SumStart::zero
                      ? _mm512_setzero_ps()
                      : _mm512_mul_ps(_mm512_loadu_ps(c.data + m * c.row + 16 * n), factor[n]);
    }
  }
}

/// Words [begin, end) of the chains.
template <int kRows, int kVectors>
HWY_NOINLINE void dot_tile(WordsLeft a, WordsRight b, WordsResult c, int64_t begin, int64_t end) {
  constexpr int kGroups = (kRows + 3) / 4;  // four rows share a pointer
  __m512 sum[kRows][kVectors];
  start_tile(c, sum);
  const uint32_t* left[kGroups];
#pragma GCC unroll 3
  for (int g = 0; g < kGroups; ++g) left[g] = a.data + begin * a.step + 4 * g * a.row;
  const uint32_t* right = b.data + begin * b.row;
  for (int64_t k = begin; k < end; ++k) {
    __m512bh row[kVectors];
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) {
      row[n] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + 16 * n));
    }
#pragma GCC unroll 12
    for (int m = 0; m < kRows; ++m) {
      const __m512i word = _mm512_set1_epi32(static_cast<int>(left[m / 4][(m % 4) * a.row]));
#pragma GCC unroll 2
      for (int n = 0; n < kVectors; ++n) {
        sum[m][n] = _mm512_dpbf16_ps(sum[m][n], reinterpret_cast<__m512bh>(word), row[n]);
      }
    }
#pragma GCC unroll 3
    for (int g = 0; g < kGroups; ++g) left[g] += a.step;
    right += b.row;
  }
#pragma GCC unroll 12
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 2
    for (int n = 0; n < kVectors; ++n) {
      _mm512_storeu_ps(c.data + m * c.row + 16 * n, sum[m][n]);
    }
  }
}

/// `rows` <= kTileRows rows.
template <int kVectors>
HWY_INLINE void dot_rows(WordsLeft a, WordsRight b, WordsResult c, int64_t rows, int64_t begin,
                         int64_t end) {
  using Tile = void (*)(WordsLeft, WordsRight, WordsResult, int64_t, int64_t);
  static constexpr Tile kTiles[kTileRows] = {
      dot_tile<1, kVectors>,  dot_tile<2, kVectors>,  dot_tile<3, kVectors>,
      dot_tile<4, kVectors>,  dot_tile<5, kVectors>,  dot_tile<6, kVectors>,
      dot_tile<7, kVectors>,  dot_tile<8, kVectors>,  dot_tile<9, kVectors>,
      dot_tile<10, kVectors>, dot_tile<11, kVectors>, dot_tile<12, kVectors>};
  kTiles[rows - 1](a, b, c, begin, end);
}

/// All rows against one panel of 16 kVectors columns; tiles of nearly equal height.
template <int kVectors>
HWY_INLINE void dot_panel(WordsLeft a, WordsRight b, WordsResult c, int64_t rows, int64_t begin,
                          int64_t end) {
  int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t m = 0; m < rows; --tiles) {
    const int64_t count = (rows - m + tiles - 1) / tiles;
    dot_rows<kVectors>({a.data + m * a.row, a.row, a.step}, b,
                       {c.data + m * c.row, c.row, c.start, c.factor}, count, begin, end);
    m += count;
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3
#endif  // MEGA_ATTENTION_BF16_PRODUCT_INL_H_
