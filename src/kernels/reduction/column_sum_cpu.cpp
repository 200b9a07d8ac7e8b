// SPDX-License-Identifier: Apache-2.0
// Column sums and trees for f32 and bf16: columns over threads; rows stream by, four at a time,
// while the sums stay in the first-level cache.
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

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// db += row 0, then row 1, ... of kRows rows, over columns.
template <int kRows>
void add_rows(const ConstView& dy, int64_t t, const View& db, int64_t partial, Range columns) {
  const AnyRow sums(db, partial);
  const AnyOutputRow out(db, partial);
  AnyRow rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = AnyRow(dy, t + r);
  for (int64_t c = columns.begin; c < columns.end; c += 16) {
    Vec16 sum = load16(sums, c, columns.end);
    for (int r = 0; r < kRows; ++r) sum = add16(sum, load16(rows[r], c, columns.end));
    store16(sum, out, c, columns.end);
  }
}

void sum_columns(const ColumnSum& a, Range columns) {
  const int64_t rows = a.dy_TO.size(0);
  for (int64_t t = 0; t < rows;) {
    const int64_t run_end = a.shards.run_end(t, rows);
    const int64_t partial = a.shards.partial_of(t);
    for (; t + 4 <= run_end; t += 4) add_rows<4>(a.dy_TO, t, a.db_PO, partial, columns);
    for (; t < run_end; ++t) add_rows<1>(a.dy_TO, t, a.db_PO, partial, columns);
  }
}

constexpr int kChunk = 4;  // vectors of 16 per step: the recursion's cost is shared
struct Chunk {
  Vec16 vec[kChunk];
};

void tree_of(const ConstView& x, int64_t lo, int64_t hi, int64_t column, int64_t end, Chunk& sum) {
  if (hi - lo == 1) {
    const AnyRow row(x, lo);
    for (int k = 0; k < kChunk; ++k) {
      const int64_t c = column + 16 * k;
      sum.vec[k] = c < end ? load16(row, c, end) : set16(0.0f);
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
  const AnyRow y_in(y, 0);
  const AnyOutputRow out(y, 0);
  for (int64_t column = columns.begin; column < columns.end; column += 16 * kChunk) {
    Chunk sum;
    tree_of(a.x_PN, 0, a.x_PN.size(0), column, columns.end, sum);
    for (int k = 0; k < kChunk; ++k) {
      const int64_t c = column + 16 * k;
      if (c >= columns.end) break;
      if (a.accumulate) sum.vec[k] = add16(load16(y_in, c, columns.end), sum.vec[k]);
      store16(sum.vec[k], out, c, columns.end);
    }
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
