// SPDX-License-Identifier: Apache-2.0
// The small matrix products inside attention, C[M, N] = init + A[M, K] B[K, N], where every element
// of C is one FMA chain in increasing k. A is read one number at a time at any strides (so A may be
// a transposed block), B and C in rows of whole vectors. A tile of up to 6 rows x 64 columns lives
// in registers. Bits do not depend on the tile an element falls into. Included once per instruction
// set.

#if defined(MEGA_ATTENTION_BLOCK_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BLOCK_PRODUCT_INL_H_
#undef MEGA_ATTENTION_BLOCK_PRODUCT_INL_H_
#else
#define MEGA_ATTENTION_BLOCK_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/elementary/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// A: element (m, k) at data[m * row + k * step].
struct Left {
  const float* data;
  int64_t row;
  int64_t step;
};
template <class T>
struct Right {
  const T* data;
  int64_t row;
  int64_t ahead = 0;  // elements from here to what few rows of A read next; 0: nothing
};
/// What a chain starts from.
enum class Start { zero, carry };

/// Rows of C, and for each row a factor that the carried value is first multiplied by (null: 1).
struct Result {
  float* data;
  int64_t row;
  Start start = Start::zero;
  const float* factor = nullptr;

  Result at(int64_t m, int64_t n) const {
    return {data + m * row + n, row, start, factor == nullptr ? nullptr : factor + m};
  }
  Result carried() const { return {data, row, Start::carry, nullptr}; }
};

inline constexpr int kMostRows = 6;  // of a tile

template <int kVectors, class T>
HWY_INLINE void prefetch_row(const T* row) {
  constexpr int kBytes = kVectors * static_cast<int>(kFloatLanes * sizeof(T));
  for (int at = 0; at < kBytes; at += 64)
    __builtin_prefetch(reinterpret_cast<const std::byte*>(row) + at, 0, 2);
}

template <int kRows, int kVectors, class T>
HWY_NOINLINE void product_tile(Left a, Right<T> b, Result c, int64_t k_begin, int64_t k_end) {
  const FloatTag d;
  FloatVec sum[kRows][kVectors];
  if (c.start == Start::carry) {
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const FloatVec factor = hn::Set(d, c.factor == nullptr ? 1.0f : c.factor[m]);
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) {
        sum[m][n] = hn::Mul(hn::LoadU(d, c.data + m * c.row + n * kFloatLanes), factor);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::Zero(d);
    }
  }
  const float* HWY_RESTRICT left = a.data + k_begin * a.step;
  const T* HWY_RESTRICT right = b.data + k_begin * b.row;
  for (int64_t k = k_begin; k < k_end; ++k) {
    FloatVec row[kVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) row[n] = load(right + n * kFloatLanes);
    if (kRows < kMostRows && b.ahead != 0) prefetch_row<kVectors>(right + b.ahead);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const FloatVec value = hn::Set(d, left[m * a.row]);
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::MulAdd(value, row[n], sum[m][n]);
    }
    left += a.step;
    right += b.row;
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) {
      hn::StoreU(sum[m][n], d, c.data + m * c.row + n * kFloatLanes);
    }
  }
}

/// Which k belong to each row's chain: [begin[m], end[m]), or [0, all) when `end` is null; a null
/// begin means 0.
struct Chains {
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
  int64_t all = 0;

  static Chains of_length(int64_t length) { return {nullptr, nullptr, length}; }
  Chains from_row(int64_t m) const {
    return {begin == nullptr ? nullptr : begin + m, end == nullptr ? nullptr : end + m, all};
  }
};

/// kRows rows whose chains may differ: first the parts before the common range row by row, then the
/// common range as one tile, then the parts after it.
template <int kRows, int kVectors, class T>
HWY_INLINE void product_strip(Left a, Right<T> b, Result c, Chains chains) {
  if (chains.end == nullptr) {
    product_tile<kRows, kVectors>(a, b, c, 0, chains.all);
    return;
  }
  int32_t first = chains.begin == nullptr ? 0 : chains.begin[0];
  int32_t last = chains.end[0];
  bool ragged_begin = false;
  for (int m = 1; m < kRows; ++m) {
    if (chains.begin != nullptr && chains.begin[m] != chains.begin[0]) {
      ragged_begin = true;
      first = std::max(first, chains.begin[m]);
    }
    last = std::min(last, chains.end[m]);
  }
  if constexpr (kRows > 1) {
    last = std::max(first, last);
    if (ragged_begin) {
      for (int m = 0; m < kRows; ++m) {
        const Left row{a.data + m * a.row, a.row, a.step};
        product_tile<1, kVectors>(row, b, c.at(m, 0), chains.begin[m],
                                  std::min(first, chains.end[m]));
      }
      c = c.carried();
    }
    product_tile<kRows, kVectors>(a, b, c, first, last);
    for (int m = 0; m < kRows; ++m) {
      if (chains.end[m] <= last) continue;
      const Left row{a.data + m * a.row, a.row, a.step};
      product_tile<1, kVectors>(row, b, c.at(m, 0).carried(), last, chains.end[m]);
    }
  } else {
    product_tile<1, kVectors>(a, b, c, first, last);
  }
}

template <int kVectors, class T>
HWY_INLINE void product_panel(Left a, Right<T> b, Result c, int64_t rows, Chains chains) {
  int64_t m = 0;
  const auto part = [&](int64_t count) HWY_ATTR {
    const Chains rest = chains.from_row(m);
    const Left left{a.data + m * a.row, a.row, a.step};
    if (count == kMostRows) product_strip<kMostRows, kVectors>(left, b, c.at(m, 0), rest);
    if (count == 4) product_strip<4, kVectors>(left, b, c.at(m, 0), rest);
    if (count == 2) product_strip<2, kVectors>(left, b, c.at(m, 0), rest);
    if (count == 1) product_strip<1, kVectors>(left, b, c.at(m, 0), rest);
    m += count;
  };
  while (m + kMostRows <= rows) part(kMostRows);
  for (const int64_t count : {4, 2, 1}) {
    if (m + count <= rows) part(count);
  }
}

/// C[rows, columns] = start + A B; `columns` is a multiple of kFloatLanes.
template <class T>
HWY_INLINE void product(Left a, Right<T> b, Result c, int64_t rows, int64_t columns,
                        Chains chains) {
  constexpr int kWide = kFloatLanes == 16 ? 4 : 2;
  int64_t n = 0;
  for (; n + kWide * kFloatLanes <= columns; n += kWide * kFloatLanes) {
    product_panel<kWide>(a, Right<T>{b.data + n, b.row, b.ahead}, c.at(0, n), rows, chains);
  }
  for (; n < columns; n += kFloatLanes) {
    product_panel<1>(a, Right<T>{b.data + n, b.row, b.ahead}, c.at(0, n), rows, chains);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BLOCK_PRODUCT_INL_H_
