// SPDX-License-Identifier: Apache-2.0
// Low-rank products for f32, bf16 and f16: 16 columns of a factor at a time, for several rows of a
// run that share what is read of it. What is done at once changes no bit: each element is one
// chain.
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
HWY_INLINE float widened(f16_t x) { return to_f32(x); }

/// Chains over a shard of `rows` times columns [column, column + 16 kColumns) of the factor; sums
/// by columns, then rows. kFull: all of these columns exist.
template <class T, int kRows, int kColumns, bool kFull>
HWY_INLINE void run_chain(const T* const (&rows)[kRows], const float* factor, int64_t rank,
                          int64_t column, Range shard, RowSums<kRows * kColumns>& sums) {
  for (int n = 0; n < kRows * kColumns; ++n) sums.of[n] = set16(0.0f);
  for (int64_t i = shard.begin; i < shard.end; ++i) {
    const float* const at = factor + i * rank + column;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      Vec16 values;
      if constexpr (kFull) {
        values = load16(at + c * 16);
      } else {
        values = load16_some(at, rank - column);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vec16& sum = sums.of[c * kRows + r];
        sum = fma16(set16(widened(rows[r][i])), values, sum);
      }
    }
  }
}

/// tree(lo, hi) over shards of `width`.
template <class T, int kRows, int kColumns, bool kFull>
void tree_of_chains(const T* const (&rows)[kRows], const float* factor, int64_t rank,
                    int64_t column, int64_t width, int64_t lo, int64_t hi,
                    RowSums<kRows * kColumns>& sums) {
  if (hi - lo == 1) {
    return run_chain<T, kRows, kColumns, kFull>(rows, factor, rank, column,
                                                {lo * width, hi * width}, sums);
  }
  RowSums<kRows * kColumns> right;
  const int64_t middle = tree_middle(lo, hi);
  tree_of_chains<T, kRows, kColumns, kFull>(rows, factor, rank, column, width, lo, middle, sums);
  tree_of_chains<T, kRows, kColumns, kFull>(rows, factor, rank, column, width, middle, hi, right);
  for (int n = 0; n < kRows * kColumns; ++n) sums.of[n] = add16(sums.of[n], right.of[n]);
}

template <class T, int kRows, int kColumns>
void project_rows(const LowRankProject& a, const LowRankRun& run, int64_t row, int64_t column) {
  const int64_t rank = run.rank, width = a.x_TI.size(1) / a.k_shards;
  const T* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = a.x_TI.row<T>(run.begin + row + r);
  const auto* const factor = run.factor.as<float>();
  float* const h = a.h_N.as<float>() + run.first + row * rank + column;
  RowSums<kRows * kColumns> sums;
  if (kColumns > 1 || column + 16 <= rank) {
    tree_of_chains<T, kRows, kColumns, true>(rows, factor, rank, column, width, 0, a.k_shards,
                                             sums);
    for (int c = 0; c < kColumns; ++c)
      for (int r = 0; r < kRows; ++r) store16(sums.of[c * kRows + r], h + r * rank + c * 16);
  } else {
    tree_of_chains<T, kRows, kColumns, false>(rows, factor, rank, column, width, 0, a.k_shards,
                                              sums);
    for (int r = 0; r < kRows; ++r) store16_some(sums.of[r], h + r * rank, rank - column);
  }
}

/// Rows [rows.begin, rows.end) of a run, kRowsAtOnce at most, some columns. Of few rows more
/// columns at once: a chain alone waits for itself.
template <class T>
void project_of(const LowRankProject& a, const LowRankRun& run, Range rows, Range columns) {
  int64_t column = columns.begin;
  const auto by_rows = [&](auto columns_at_once) {
    constexpr int kColumns = decltype(columns_at_once)::value;
    int64_t row = rows.begin;
    if constexpr (kColumns == 1) {
      if (rows.size() == kRowsAtOnce) return project_rows<T, kRowsAtOnce, 1>(a, run, row, column);
    }
    for (; row + 2 <= rows.end; row += 2) project_rows<T, 2, kColumns>(a, run, row, column);
    if (row < rows.end) project_rows<T, 1, kColumns>(a, run, row, column);
  };
  if (rows.size() < kRowsAtOnce)
    for (; column + 48 <= columns.end; column += 48) by_rows(std::integral_constant<int, 3>());
  if (rows.size() < kRowsAtOnce)
    for (; column + 32 <= columns.end; column += 32) by_rows(std::integral_constant<int, 2>());
  for (; column < columns.end; column += 16) by_rows(std::integral_constant<int, 1>());
}

void project(const LowRankProject& a, const LowRankRun& run, Range rows, Range columns) {
  if (a.x_TI.dtype() == DType::f32) {
    project_of<float>(a, run, rows, columns);
  } else if (a.x_TI.dtype() == DType::f16) {
    project_of<f16_t>(a, run, rows, columns);
  } else {
    project_of<bf16_t>(a, run, rows, columns);
  }
}

/// a in even lanes, b in odd ones.
HWY_INLINE Vec16 set16_pair(float a, float b) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i)
    v.part[i] = hn::OddEven(hn::Set(FloatTag(), b), hn::Set(FloatTag(), a));
  return v;
}

constexpr int kVectorsAtOnce = 4;  // of a row of b: memory gives more than a line at a time

/// `kVectors` vectors of y from column o on, those before n.
template <int kVectors, bool kFull, bool kPairs>
HWY_INLINE void add_vectors(const LowRankRun& run, const LowRankBlock& block, const float* h,
                            const AnyRow& before, const AnyOutputRow& after, int64_t o, int64_t n) {
  const float* const even = h + block.first[0];
  const float* const odd = h + block.first[1];
  Vec16 sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = set16(0.0f);
  for (int64_t r = 0; r < block.ranks; ++r) {
    const TypedRow<float> factor(run.factor, r);
    const Vec16 value = kPairs ? set16_pair(even[r], odd[r]) : set16(even[r]);
    for (int v = 0; v < kVectors; ++v)
      sums[v] = fma16(value, load_row<kFull>(factor, o + v * 16, n), sums[v]);
  }
  for (int v = 0; v < kVectors; ++v)
    store_row<kFull>(add16(load_row<kFull>(before, o + v * 16, n), sums[v]), after, o + v * 16, n);
}

template <bool kPairs>
void add_block(const LowRankAdd& a, const LowRankRun& run, const LowRankBlock& block, Range rows) {
  const int64_t n = block.columns.end;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const AnyRow before(a.y_TO, run.begin + row);
    const AnyOutputRow after(a.y_TO, run.begin + row);
    const float* const h = a.h_N.as<float>() + run.first + row * run.rank;
    int64_t o = block.columns.begin;
    for (; o + kVectorsAtOnce * 16 <= n; o += kVectorsAtOnce * 16)
      add_vectors<kVectorsAtOnce, true, kPairs>(run, block, h, before, after, o, n);
    for_columns(o, n, [&](int64_t at, auto full) {
      add_vectors<1, decltype(full)::value, kPairs>(run, block, h, before, after, at, n);
    });
  }
}

/// Some columns of y, for some rows of a run.
void add_columns(const LowRankAdd& a, const LowRankRun& run, Range rows, Range columns) {
  for_blocks(run, columns, [&](const LowRankBlock& block) {
    if (block.first[0] == block.first[1]) {
      add_block<false>(a, run, block, rows);
    } else {
      add_block<true>(a, run, block, rows);
    }
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kRowBlock = 8;         // of kRowsAtOnce
constexpr int64_t kColumnBlock = 256;    // of y
constexpr int64_t kProjectBlock = 48;    // of h
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
      exec, a.runs, kProjectBlock, a.x_TI.size(1) * 8,
      [](const LowRankRun& run) { return run.factor.size(1); },
      [&](const Piece& piece) {
        MEGA_CALL_SIMD(exec, project, a, *piece.run, piece.rows, piece.columns);
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
