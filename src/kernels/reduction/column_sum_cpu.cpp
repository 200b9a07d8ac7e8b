// SPDX-License-Identifier: Apache-2.0
// Column sums and trees for f32, bf16 and f16: columns over threads; rows stream by, four at a
// time, while the sums stay in the first-level cache.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/column_sum_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/any_row-inl.h"
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// db += row 0, then row 1, ... of kRows rows, over columns; with kTimes each times the row of x.
template <class T, bool kTimes, int kRows>
void add_rows(const ColumnSum& a, int64_t t, int64_t partial, Range columns) {
  const TypedRow<float> sums(a.db_PO, partial);
  const TypedOutputRow<float> out(a.db_PO, partial);
  TypedRow<T> rows[kRows], factors[kRows];
  for (int r = 0; r < kRows; ++r) {
    rows[r] = TypedRow<T>(a.dy_TO, t + r);
    if constexpr (kTimes) factors[r] = TypedRow<T>(a.x_TO, t + r);
  }
  for_columns(columns.begin, columns.end, [&](int64_t c, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 sum = load_row<kFull>(sums, c, columns.end);
    for (int r = 0; r < kRows; ++r) {
      const Vec16 row = load_row<kFull>(rows[r], c, columns.end);
      if constexpr (kTimes) {
        sum = fma16(row, load_row<kFull>(factors[r], c, columns.end), sum);
      } else {
        sum = add16(sum, row);
      }
    }
    store_row<kFull>(sum, out, c, columns.end);
  });
}

template <class T, bool kTimes>
void sum_columns_of(const ColumnSum& a, Range columns) {
  const int64_t rows = a.dy_TO.size(0);
  for (int64_t t = 0; t < rows;) {
    const int64_t run_end = a.shards.run_end(t, rows);
    const int64_t partial = a.shards.partial_of(t);
    for (; t + 4 <= run_end; t += 4) add_rows<T, kTimes, 4>(a, t, partial, columns);
    for (; t < run_end; ++t) add_rows<T, kTimes, 1>(a, t, partial, columns);
  }
}

void sum_columns(const ColumnSum& a, Range columns) {
  with_storage(a.dy_TO.dtype(), [&](auto type) {
    if (a.x_TO.absent()) {
      sum_columns_of<decltype(type), false>(a, columns);
    } else {
      sum_columns_of<decltype(type), true>(a, columns);
    }
  });
}

constexpr int kChunk = 4;  // vectors of 16 per step: the recursion's cost is shared
struct Chunk {
  Vec16 vec[kChunk];
};

/// tree(lo, hi) of columns [column, column + 64), those at `end` and later as 0.
void tree_of(const ConstView& x, int64_t lo, int64_t hi, int64_t column, int64_t end, Chunk& sum) {
  if (hi - lo == 1) {
    const TypedRow<float> row(x, lo);
    for (int k = 0; k < kChunk; ++k) {
      const int64_t c = column + 16 * k;
      sum.vec[k] = c + 16 <= end ? load_row<true>(row, c, end)
                   : c < end     ? load_row<false>(row, c, end)
                                 : set16(0.0f);
    }
    return;
  }
  Chunk right;
  const int64_t middle = tree_middle(lo, hi);
  tree_of(x, lo, middle, column, end, sum);
  tree_of(x, middle, hi, column, end, right);
  for (int k = 0; k < kChunk; ++k) sum.vec[k] = add16(sum.vec[k], right.vec[k]);
}

void tree_columns(const TreeSum& a, const View& y, Range columns) {
  const TypedRow<float> y_in(y, 0);
  const TypedOutputRow<float> out(y, 0);
  for (int64_t column = columns.begin; column < columns.end; column += 16 * kChunk) {
    Chunk sum;
    tree_of(a.x_PN, 0, a.x_PN.size(0), column, columns.end, sum);
    const Vec16* next = sum.vec;
    const int64_t end = std::min(columns.end, column + 16 * kChunk);
    for_columns(column, end, [&](int64_t c, auto full) {
      constexpr bool kFull = decltype(full)::value;
      const Vec16 total = a.accumulate ? add16(load_row<kFull>(y_in, c, end), *next) : *next;
      store_row<kFull>(total, out, c, end);
      ++next;
    });
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

/// Columns per thread at least, so that a thread has some thousand elements to add.
int64_t column_grain(int64_t rows) {
  constexpr int64_t kGrainElements = 8192;
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, rows) / 64) * 64;
}

}  // namespace

void column_sum_simd(Exec& exec, const ColumnSum& a) {
  exec.device.pool().for_range(
      a.dy_TO.size(1), column_grain(a.dy_TO.size(0)),
      [&](Range range, int) { MEGA_CALL_SIMD(exec, sum_columns, a, range); });
}

void tree_sum_simd(Exec& exec, const TreeSum& a) {
  const View y = as_one_row(a.y_N);
  exec.device.pool().for_range(y.size(1), column_grain(a.x_PN.size(0)), [&](Range range, int) {
    MEGA_CALL_SIMD(exec, tree_columns, a, y, range);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
