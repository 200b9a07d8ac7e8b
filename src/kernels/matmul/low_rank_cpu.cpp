// SPDX-License-Identifier: Apache-2.0
// Low-rank products for f32 and bf16: 16 columns of a factor at a time, for several rows of a run
// that share what is read of it. What is done at once changes no bit: each element is one chain.
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/dispatch.h"
#include "kernels/matmul/low_rank_lists.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/low_rank_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/any_row-inl.h"
#include "kernels/reduction/tree_sum.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

constexpr int kRowsAtOnce = 8;  // chains side by side, which hide each other's latency

template <int kRows>
struct RowSums {
  Vec16 of[kRows];
};

HWY_INLINE float widened(float x) { return x; }
HWY_INLINE float widened(bf16_t x) { return to_f32(x); }

/// Chains over [begin, end) of `rows` times columns [column, column + 16) of the factor.
template <class T, int kRows, bool kFull>
HWY_INLINE void run_chain(const T* const (&rows)[kRows], const float* factor, int64_t rank,
                          int64_t column, Range shard, RowSums<kRows>& sums) {
  for (int r = 0; r < kRows; ++r) sums.of[r] = set16(0.0f);
  for (int64_t i = shard.begin; i < shard.end; ++i) {
    const float* const at = factor + i * rank + column;
    Vec16 values;
    if constexpr (kFull) {
      values = load16(at);
    } else {
      values = load16_some(at, rank - column);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sums.of[r] = fma16(set16(widened(rows[r][i])), values, sums.of[r]);
  }
}

/// tree(lo, hi) over shards of `width`.
template <class T, int kRows, bool kFull>
void tree_of_chains(const T* const (&rows)[kRows], const float* factor, int64_t rank,
                    int64_t column, int64_t width, int64_t lo, int64_t hi, RowSums<kRows>& sums) {
  if (hi - lo == 1) {
    return run_chain<T, kRows, kFull>(rows, factor, rank, column, {lo * width, hi * width}, sums);
  }
  RowSums<kRows> right;
  const int64_t middle = tree_middle(lo, hi);
  tree_of_chains<T, kRows, kFull>(rows, factor, rank, column, width, lo, middle, sums);
  tree_of_chains<T, kRows, kFull>(rows, factor, rank, column, width, middle, hi, right);
  for (int r = 0; r < kRows; ++r) sums.of[r] = add16(sums.of[r], right.of[r]);
}

template <class T, int kRows>
void project_rows(const LowRankProject& a, const LowRankRun& run, int64_t row, int64_t column) {
  const int64_t rank = run.factor.size(1), width = a.x_TI.size(1) / a.k_shards;
  const T* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = a.x_TI.row<T>(run.begin + row + r);
  const auto* const factor = run.factor.as<float>();
  float* const h = a.h_N.as<float>() + run.first + row * rank;
  RowSums<kRows> sums;
  if (column + 16 <= rank) {
    tree_of_chains<T, kRows, true>(rows, factor, rank, column, width, 0, a.k_shards, sums);
    for (int r = 0; r < kRows; ++r) store16(sums.of[r], h + r * rank + column);
  } else {
    tree_of_chains<T, kRows, false>(rows, factor, rank, column, width, 0, a.k_shards, sums);
    for (int r = 0; r < kRows; ++r) store16_some(sums.of[r], h + r * rank + column, rank - column);
  }
}

/// Rows [rows.begin, rows.end) of a run, kRowsAtOnce at most, columns from `column` on.
template <class T>
void project_of(const LowRankProject& a, const LowRankRun& run, Range rows, int64_t column) {
  int64_t row = rows.begin;
  if (rows.size() == kRowsAtOnce) return project_rows<T, kRowsAtOnce>(a, run, row, column);
  for (; row + 2 <= rows.end; row += 2) project_rows<T, 2>(a, run, row, column);
  if (row < rows.end) project_rows<T, 1>(a, run, row, column);
}

void project(const LowRankProject& a, const LowRankRun& run, Range rows, int64_t column) {
  if (a.x_TI.dtype() == DType::f32) {
    project_of<float>(a, run, rows, column);
  } else {
    project_of<bf16_t>(a, run, rows, column);
  }
}

/// Columns of y from `columns.begin` on, for some rows of a run.
void add_columns(const LowRankAdd& a, const LowRankRun& run, Range rows, Range columns) {
  const int64_t rank = run.factor.size(0), n = columns.end;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const AnyRow before(a.y_TO, run.begin + row);
    const AnyOutputRow after(a.y_TO, run.begin + row);
    const float* const h = a.h_N.as<float>() + run.first + row * rank;
    for_columns(columns.begin, n, [&](int64_t o, auto full) {
      constexpr bool kFull = decltype(full)::value;
      Vec16 sum = set16(0.0f);
      for (int64_t r = 0; r < rank; ++r) {
        const TypedRow<float> factor(run.factor, r);
        sum = fma16(set16(h[r]), load_row<kFull>(factor, o, n), sum);
      }
      store_row<kFull>(add16(load_row<kFull>(before, o, n), sum), after, o, n);
    });
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kRowBlock = 8;         // of kRowsAtOnce
constexpr int64_t kColumnBlock = 256;    // of y
constexpr int64_t kGrainSteps = 16'384;  // multiplications of 16; less is not worth another thread

/// A piece of a run: a block of rows and a block of columns.
struct Piece {
  const LowRankRun* run = nullptr;
  Range rows{};
  Range columns{};
};

/// Calls body(piece) for all pieces of all runs, over the threads.
template <typename Columns, typename Body>
void for_run_pieces(Exec& exec, const LowRankRuns& runs, int64_t column_block, int64_t steps,
                    Columns columns_of, const Body& body) {
  std::array<int64_t, kMostLowRankRuns + 1> begins{};
  for (size_t n = 0; n < runs.count; ++n) {
    begins[n + 1] = begins[n] + ceil_div(runs.run[n].count, kRowBlock) *
                                    ceil_div(columns_of(runs.run[n]), column_block);
  }
  const int64_t total = begins[runs.count];
  if (total == 0) return;
  const int64_t grain = std::max<int64_t>(1, kGrainSteps / std::max<int64_t>(1, steps));
  exec.device.pool().for_range(total, grain, [&](Range range, int) {
    size_t n = 0;
    for (int64_t at = range.begin; at < range.end; ++at) {
      while (at >= begins[n + 1]) ++n;
      const LowRankRun& run = runs.run[n];
      const int64_t columns = columns_of(run), blocks = ceil_div(columns, column_block);
      const int64_t row = (at - begins[n]) / blocks * kRowBlock;
      const int64_t column = (at - begins[n]) % blocks * column_block;
      body(Piece{&run,
                 {row, std::min(row + kRowBlock, run.count)},
                 {column, std::min(column + column_block, columns)}});
    }
  });
}

}  // namespace

void low_rank_project_simd(Exec& exec, const LowRankProject& a) {
  for_run_pieces(
      exec, a.runs, 16, a.x_TI.size(1) * 4,
      [](const LowRankRun& run) { return run.factor.size(1); },
      [&](const Piece& piece) {
        MEGA_CALL_SIMD(exec, project, a, *piece.run, piece.rows, piece.columns.begin);
      });
}

void low_rank_add_simd(Exec& exec, const LowRankAdd& a) {
  int64_t rank = 1;
  for (size_t n = 0; n < a.runs.count; ++n) rank = std::max(rank, a.runs.run[n].factor.size(0));
  for_run_pieces(
      exec, a.runs, kColumnBlock, rank * kColumnBlock / 16,
      [](const LowRankRun& run) { return run.factor.size(1); },
      [&](const Piece& piece) {
        MEGA_CALL_SIMD(exec, add_columns, a, *piece.run, piece.rows, piece.columns);
      });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
