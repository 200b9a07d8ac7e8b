// SPDX-License-Identifier: Apache-2.0
// The small matrix products of attention over bf16, C[M, N] (f32) = start + A[M, K] B[K, N], where
// every element of C is one bf16 chain (math/bf16_chain.h). A and B are kept in *words* of two
// neighbours in k (the even one in the low half): A one word at a time at any strides, B as rows of
// words, one row per two k. Bits do not depend on the tile that an element falls into. A template
// over the chain's steps (bf16_chain-inl.h); included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#undef MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#else
#define MEGA_ATTENTION_BF16_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention_bf16.h"
#include "kernels/elementary/bf16_chain-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
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
  int64_t ahead = 0;  // words from here to what is read next; 0: not known
};
enum class SumStart { zero, carry, scaled };
/// C. With `scaled`, the value it holds is first multiplied by factor[n] of its column. In the end
/// sums are multiplied by `times`.
struct WordsResult {
  float* data;
  int64_t row;
  SumStart start = SumStart::zero;
  const float* factor = nullptr;
  float times = 1;
};

/// Rows of a full register tile of two vectors: with 32 registers 24 sums, two vectors of the right
/// side and one word of the left. And of four vectors.
inline constexpr int kTallTile = kFloatLanes == 16 ? 12 : 4;
inline constexpr int kWideTile = kFloatLanes == 16 ? 6 : 4;
inline constexpr int kWideVectors = kFloatLanes == 16 ? 4 : 2;

template <int kRows, int kVectors>
HWY_INLINE void start_tile(const WordsResult& c, int64_t m, int64_t n,
                           FloatVec (&sum)[kRows][kVectors]) {
  const auto start_each = [&](const auto& value) HWY_ATTR {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[i][v] = value((m + i) * c.row + n + v * kFloatLanes, n + v * kFloatLanes);
      }
    }
  };
  if (c.start == SumStart::zero) {
    start_each([](int64_t, int64_t) HWY_ATTR { return hn::Zero(FloatTag()); });
  } else if (c.start == SumStart::carry) {
    start_each([&](int64_t at, int64_t) HWY_ATTR { return load(c.data + at); });
  } else {
    start_each([&](int64_t at, int64_t column)
                   HWY_ATTR { return hn::Mul(load(c.data + at), load(c.factor + column)); });
  }
}

/// The tile at row m and column n of C: words [begin, end) of its chains. Operands come by
/// reference and as they are: a copy of a structure would wait for the writes of its parts.
template <class Steps, int kRows, int kVectors>
HWY_NOINLINE void dot_tile(const WordsLeft& a, const WordsRight& b, const WordsResult& c, int64_t m,
                           int64_t n, int64_t begin, int64_t end) {
  constexpr int kGroups = (kRows + 3) / 4;  // four rows share a pointer
  const WordTag dw;
  FloatVec sum[kRows][kVectors];
  start_tile(c, m, n, sum);
  const uint32_t* left[kGroups];
#pragma GCC unroll 3
  for (int g = 0; g < kGroups; ++g) left[g] = a.data + begin * a.step + (m + 4 * g) * a.row;
  const uint32_t* right = b.data + begin * b.row + n;
  for (int64_t k = begin; k < end; ++k) {
    WordVec row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      row[v] = hn::LoadU(dw, right + v * kFloatLanes);
      if (kVectors == kWideVectors && b.ahead != 0) {
        __builtin_prefetch(right + b.ahead + v * kFloatLanes, 0, 2);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const WordVec word = hn::Set(dw, left[i / 4][(i % 4) * a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = Steps::step(word, row[v], sum[i][v]);
    }
#pragma GCC unroll 3
    for (int g = 0; g < kGroups; ++g) left[g] += a.step;
    right += b.row;
  }
  const auto store_each = [&](const auto& value) HWY_ATTR {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        store(value(sum[i][v]), c.data + (m + i) * c.row + n + v * kFloatLanes);
      }
    }
  };
  if (c.times == 1) {
    store_each([](FloatVec v) HWY_ATTR { return v; });
  } else {
    const FloatVec times = hn::Set(FloatTag(), c.times);
    store_each([&](FloatVec v) HWY_ATTR { return hn::Mul(v, times); });
  }
}

/// The tile of `rows` <= kMost rows.
template <class Steps, int kVectors, int kMost, int... kRows>
HWY_INLINE auto tile_of(int64_t rows, std::integer_sequence<int, kRows...>) {
  using Tile = void (*)(const WordsLeft&, const WordsRight&, const WordsResult&, int64_t, int64_t,
                        int64_t, int64_t);
  static constexpr Tile kTiles[kMost] = {dot_tile<Steps, kRows + 1, kVectors>...};
  return kTiles[rows - 1];
}

/// All rows against the kVectors vectors at column n: full tiles, the last two of equal height.
template <class Steps, int kVectors, int kMost>
HWY_INLINE void dot_panel(const WordsLeft& a, const WordsRight& b, const WordsResult& c, int64_t n,
                          int64_t rows, int64_t begin, int64_t end) {
  for (int64_t m = 0; m < rows;) {
    const int64_t left = rows - m;
    const int64_t count = left >= 2 * kMost ? kMost : left > kMost ? (left + 1) / 2 : left;
    tile_of<Steps, kVectors, kMost>(count, std::make_integer_sequence<int, kMost>())(a, b, c, m, n,
                                                                                     begin, end);
    m += count;
  }
}

/// Nothing but chains is computed here: FMA instructions flush denormals meanwhile.
template <class Steps>
HWY_NOINLINE void dot_chains(const WordsLeft& a, const WordsRight& b, const WordsResult& c,
                             int64_t rows, int64_t columns, int64_t begin, int64_t end) {
  const FlushDenormals flush(Steps::kFlushes);
  int64_t n = 0;
  for (; n + 2 * kFloatLanes <= columns; n += 2 * kFloatLanes) {
    dot_panel<Steps, 2, kTallTile>(a, b, c, n, rows, begin, end);
  }
  for (; n < columns; n += kFloatLanes) {
    dot_panel<Steps, 1, kTallTile>(a, b, c, n, rows, begin, end);
  }
}

/// Multiplies each row by times(n) from column n on.
template <class Times>
HWY_INLINE void multiply(const WordsResult& c, int64_t rows, int64_t columns, const Times& times) {
  for (int64_t m = 0; m < rows; ++m) {
    float* row = c.data + m * c.row;
    for (int64_t n = 0; n < columns; n += kFloatLanes) {
      store(hn::Mul(load(row + n), times(n)), row + n);
    }
  }
}

/// C[rows, columns] over words [begin, end) of the chains; `columns` is a multiple of 16.
template <class Steps>
HWY_INLINE void dot_product(const WordsLeft& a, const WordsRight& b, const WordsResult& c,
                            int64_t rows, int64_t columns, int64_t begin, int64_t end) {
  if constexpr (!Steps::kFlushes) {
    dot_chains<Steps>(a, b, c, rows, columns, begin, end);
    return;
  }
  // Factors are not part of the chains.
  const bool scaled = c.start == SumStart::scaled;
  if (scaled) {
    multiply(c, rows, columns, [&](int64_t n) HWY_ATTR { return load(c.factor + n); });
  }
  dot_chains<Steps>(a, b, {c.data, c.row, scaled ? SumStart::carry : c.start}, rows, columns, begin,
                    end);
  if (c.times != 1) {
    multiply(c, rows, columns, [&](int64_t) HWY_ATTR { return hn::Set(FloatTag(), c.times); });
  }
}

/// The same (not `scaled`) for few rows and a right side that comes from memory.
template <class Steps>
HWY_NOINLINE void dot_few_rows(const WordsLeft& a, const WordsRight& b, const WordsResult& c,
                               int64_t rows, int64_t columns, int64_t begin, int64_t end) {
  const FlushDenormals flush(Steps::kFlushes);
  int64_t n = 0;
  for (; n + kWideVectors * kFloatLanes <= columns; n += kWideVectors * kFloatLanes) {
    dot_panel<Steps, kWideVectors, kWideTile>(a, b, c, n, rows, begin, end);
  }
  for (; n < columns; n += kFloatLanes) {
    dot_panel<Steps, 1, kWideTile>(a, b, c, n, rows, begin, end);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_PRODUCT_INL_H_
