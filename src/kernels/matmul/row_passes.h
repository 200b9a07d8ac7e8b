// SPDX-License-Identifier: Apache-2.0
// How products of few rows of A go through them: packed side by side, a power of two at a time
// (small_m_pack-inl.h), a pass of all columns for each.
#pragma once

#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

inline constexpr int64_t kFewRows = 16;

struct RowPasses {
  int64_t m = 0;
  int rows = 0;          // side by side
  int64_t distance = 0;  // floats from one pass to the next

  /// `most`: rows whose sums stay in registers, a power of two. Of every form: an odd shard ends
  /// with a zero.
  RowPasses(const Product& product, int most)
      : m(product.m),
        rows(std::min(most, static_cast<int>(std::bit_ceil(static_cast<uint64_t>(product.m))))) {
    const int64_t width = round_up<int64_t>(product.k / product.k_shards, 2);
    distance = round_up<int64_t>(product.k_shards * width * rows, 16);
  }

  /// Rows whose sums fit the registers beside a vector of columns, its codes and their tables.
  static RowPasses of_codes(const Product& product, device::Isa isa) {
    return {product, isa == device::Isa::avx2 ? 4 : 16};
  }

  int64_t bytes() const {
    return static_cast<int64_t>(sizeof(float)) * distance * ceil_div<int64_t>(m, rows);
  }
  /// Calls run(rows, A packed) for every pass.
  template <typename Run>
  void for_each(const float* packed, const Run& run) const {
    for (int64_t row = 0; row < m; row += rows, packed += distance)
      run(Range{row, std::min(row + rows, m)}, packed);
  }
};

}  // namespace megalith::kernels::matmul
