// SPDX-License-Identifier: Apache-2.0
// What bf16 attention packs and writes. Scores are kept transposed: a row per key, a lane per query
// (32 queries: a *chunk*), so that maxima and sums of a query need no sum over lanes. Heads become
// words of two neighbours in the contraction (bf16_product-inl.h):
//   rows         [r][d / 2]       neighbours in d: the left side of scores
//   transposed   [d / 2][32 r]    the same as a right side, one chunk of rows
//   row pairs    [r / 2][d]       neighbours in r: values in forward, gradients in backward
// Odd ends are filled up with zeros. For AVX-512 only.

#if defined(MEGA_ATTENTION_BF16_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#undef MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#else
#define MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#endif

#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/bf16_product-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

// ---------------------------------------------------------------- packing

HWY_INLINE const bf16_t* bf16_at(const ConstHeadsView& x, int64_t row, int64_t head) {
  return reinterpret_cast<const bf16_t*>(x.at(row, head));
}
/// The first `count` (any number; at most 32 matter) of 32 elements, then zeros.
HWY_INLINE __m512i load_words(const bf16_t* from, int64_t count) {
  const __mmask32 some =
      count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << count) - 1);
  return _mm512_maskz_loadu_epi16(some, from);
}
/// 16 elements as the low halves of words.
HWY_INLINE __m512i load_halves(const bf16_t* from, int64_t count) {
  const __mmask16 some =
      count >= 16 ? ~__mmask16{0} : static_cast<__mmask16>((uint32_t{1} << count) - 1);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from));
}

HWY_INLINE void pack_word_rows(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                               uint32_t* out) {
  const int64_t words = words_of(x.head_size);
  for (int64_t r = 0; r < rows; ++r) {
    const bf16_t* from = bf16_at(x, row + r, head);
    for (int64_t w = 0; w < words; w += 16) {
      const auto some = static_cast<__mmask16>(words - w >= 16 ? 0xffff : (1 << (words - w)) - 1);
      _mm512_mask_storeu_epi32(out + r * words + w, some,
                               load_words(from + 2 * w, x.head_size - 2 * w));
    }
  }
}

/// Rows of `width` words (a multiple of 16), of which `columns` come from x.
HWY_INLINE void pack_row_pairs(const bf16_t* x, int64_t row_stride, int64_t rows, int64_t columns,
                               int64_t width, uint32_t* out) {
  for (int64_t r = 0; r < rows; r += 2) {
    const bf16_t* low = x + r * row_stride;
    const bf16_t* high = low + row_stride;
    for (int64_t d = 0; d < width; d += 16) {
      const int64_t count = std::max<int64_t>(0, columns - d);
      __m512i words = load_halves(low + d, count);
      if (r + 1 < rows) {
        words = _mm512_or_si512(words, _mm512_slli_epi32(load_halves(high + d, count), 16));
      }
      _mm512_storeu_si512(out + r / 2 * width + d, words);
    }
  }
}
HWY_INLINE void pack_row_pairs(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                               int64_t width, uint32_t* out) {
  pack_row_pairs(bf16_at(x, row, head), x.row_stride, rows, x.head_size, width, out);
}

/// A square of 16 x 16 words across its diagonal.
HWY_INLINE void transpose16(__m512i (&x)[16]) {
  __m512i y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // x[4 g + c]: column c (of each 128-bit part) of rows 4 g .. 4 g + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i a = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x88);
    const __m512i e = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xdd);
    const __m512i f = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xdd);
    y[c] = _mm512_shuffle_i32x4(a, b, 0x88);
    y[8 + c] = _mm512_shuffle_i32x4(a, b, 0xdd);
    y[4 + c] = _mm512_shuffle_i32x4(e, f, 0x88);
    y[12 + c] = _mm512_shuffle_i32x4(e, f, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = y[i];
}

/// Up to kChunk rows; the others become zeros.
HWY_INLINE void pack_transposed(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                                uint32_t* out) {
  const int64_t words = words_of(x.head_size);
  for (int64_t half = 0; half < kChunk; half += 16) {
    const bf16_t* from = bf16_at(x, row + half, head);
    for (int64_t w = 0; w < words; w += 16) {
      __m512i square[16];
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        square[r] = half + r < rows
                        ? load_words(from + r * x.row_stride + 2 * w, x.head_size - 2 * w)
                        : _mm512_setzero_si512();
      }
      transpose16(square);
      const int64_t count = std::min<int64_t>(16, words - w);
      for (int64_t i = 0; i < count; ++i) {
        _mm512_storeu_si512(out + (w + i) * kChunk + half, square[i]);
      }
    }
  }
}

// ---------------------------------------------------------------- writing

/// The first `count` of 16 sums, rounded.
HWY_INLINE void write_some(__m512 sums, bf16_t* to, int64_t count) {
  const auto some = static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << count) - 1);
  _mm256_mask_storeu_epi16(to, some, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sums)));
}

/// Sums [D][kChunk] of a chunk, times factor[lane] (null: 1), to `rows` rows of y.
HWY_INLINE void write_transposed(const float* sums, const float* factor, const HeadsView& y,
                                 int64_t row, int64_t head, int64_t rows) {
  for (int64_t half = 0; half < rows; half += 16) {
    const __m512 by = factor == nullptr ? _mm512_set1_ps(1.0f) : _mm512_loadu_ps(factor + half);
    for (int64_t d = 0; d < y.head_size; d += 16) {
      __m512i square[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        // + 0 makes a negative zero positive.
        square[i] =
            d + i < y.head_size
                ? _mm512_castps_si512(_mm512_fmadd_ps(
                      _mm512_loadu_ps(sums + (d + i) * kChunk + half), by, _mm512_setzero_ps()))
                : _mm512_setzero_si512();
      }
      transpose16(square);
      const int64_t count = std::min<int64_t>(16, rows - half);
      for (int64_t r = 0; r < count; ++r) {
        write_some(_mm512_castsi512_ps(square[r]),
                   reinterpret_cast<bf16_t*>(y.at(row + half + r, head)) + d, y.head_size - d);
      }
    }
  }
}

/// Sums [rows][width] to rows of y.
HWY_INLINE void write_sums(const float* sums, int64_t width, const HeadsView& y, int64_t row,
                           int64_t head, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    bf16_t* to = reinterpret_cast<bf16_t*>(y.at(row + r, head));
    for (int64_t d = 0; d < y.head_size; d += 16) {
      write_some(_mm512_add_ps(_mm512_loadu_ps(sums + r * width + d), _mm512_setzero_ps()), to + d,
                 y.head_size - d);
    }
  }
}

// ---------------------------------------------------------------- probabilities

inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2 = 0x1.62e430p-1f;

/// 2^x for x < 128: within 2^-22.5 of the true value, 0 for -inf, NaN for NaN. Half the
/// instructions of the exact exponential: the processor rounds and scales (minimax polynomial on
/// [-1/2, 1/2]).
HWY_INLINE __m512 exp2_16(__m512 x) {
  const __m512 finite = _mm512_max_ps(_mm512_set1_ps(-1000.0f), x);  // this order keeps a NaN
  const __m512 n = _mm512_roundscale_ps(finite, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(finite, n);
  __m512 power = _mm512_set1_ps(0x1.5c08e6p-10f);
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0x1.3d0c52p-7f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0x1.c6b6e4p-5f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0x1.ebf918p-3f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0x1.62e428p-1f));
  power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(power, n);
}

/// Two rows of 16 queries, rounded, as words (low half: `even`).
HWY_INLINE __m512i word_pairs(__m512 even, __m512 odd) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both);
}

/// Which of 16 queries, the first at position `query`, see the key at `key`.
HWY_INLINE __mmask16 causal_lanes(int64_t query, int64_t key) {
  const int64_t hidden = std::clamp<int64_t>(key - query, 0, 16);
  return static_cast<__mmask16>(0xffffu << hidden);
}

/// keep[j / 32 * kChunk + lane], bit j % 32: whether key first_key + j of the lane's query is kept.
/// j runs up to `keys` rounded up to 64.
HWY_INLINE void keep_bits(const SequenceDropout& dropout, int64_t head, int64_t query,
                          int64_t queries, int64_t first_key, int64_t keys, uint32_t* keep) {
  std::fill(keep, keep + round_up<int64_t>(keys, 64) / 32 * kChunk, 0u);
  alignas(64) float factor[64];
  for (int64_t lane = 0; lane < queries; ++lane) {
    for (int64_t j = 0; j < keys; j += 64) {
      dropout_factors(dropout, head, query + lane, first_key + j, factor);
      for (int64_t part = 0; part < 2; ++part) {
        uint32_t bits = 0;
        for (int64_t half = 0; half < 2; ++half) {
          const __m512 x = _mm512_load_ps(factor + part * 32 + half * 16);
          const uint32_t some = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
          bits |= some << (16 * half);
        }
        keep[(j / 32 + part) * kChunk + lane] = bits;
      }
    }
  }
}
HWY_INLINE __mmask16 kept_lanes(const uint32_t* keep, int64_t j, int64_t half) {
  const __m512i bits = _mm512_loadu_si512(keep + j / 32 * kChunk + half);
  return _mm512_test_epi32_mask(bits, _mm512_set1_epi32(static_cast<int>(uint32_t{1} << (j % 32))));
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3
#endif  // MEGA_ATTENTION_BF16_BLOCKS_INL_H_
