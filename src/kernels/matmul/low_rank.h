// SPDX-License-Identifier: Apache-2.0
// The two products of low-rank adapters (Hu et al. 2022), of many runs of rows at once, each with
// factors of its own: few columns, so that what a row costs is reading its factors, and a call of
// linear_forward for each run would cost more than that.
//
//   low_rank_project    h = x a      a [I, R]
//   low_rank_add        y = round(y + h b)      b [R, O]
//
// Where one product of ours is several of an adapter's (q, k and v, or gate and up), their factors
// lie side by side in R, and b is zero but where a piece's rows meet its columns. Those zeros are
// neither kept nor read: b is packed [P, O], P the most rows that a column has, and blocks say
// which elements of h a column's rows belong to.
//
// Arithmetic: the f32 chain of linear.h, in increasing index, the first one inside each of
// `k_shards` equal shards of I whose sums combine in the same tree: bits are those of
// linear_forward with a^T and b^T, then an addition (where h is finite: nothing is multiplied by
// zeros that are not there). h is f32; x and y are f32, bf16 or f16, rows at any distance.
// Rows that no run has are left alone. Local; ready as of a later ticket. No scratch.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/exec.h"

namespace megalith::kernels {

/// Of one call.
inline constexpr size_t kMostLowRankRuns = 16;
inline constexpr int kMostLowRankShards = 1 << 15;

/// Columns of packed b that have `ranks` rows: row r of column columns.begin + i is multiplied by
/// element first[i % 2] + r of h.
struct LowRankBlock {
  Range columns;
  std::array<int64_t, 2> first{};
  int64_t ranks = 0;
};
/// Rows [begin, begin + count) with a factor; their h is [count, rank] from element `first` of h_N.
struct LowRankRun {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t first = 0;
  int64_t rank = 0;
  ConstView factor;  // f32, contiguous
  /// Of b, ascending; to columns between them nothing is added. Empty: b is not packed. To stay as
  /// long as the factor.
  std::span<const LowRankBlock> blocks = {};
};
/// In the call itself, not in a list beside it: kernels may run later.
struct LowRankRuns {
  std::array<LowRankRun, kMostLowRankRuns> run;
  size_t count = 0;
};

struct LowRankProject {
  ConstView x_TI;
  View h_N;  // overwritten where runs say
  LowRankRuns runs;
  int k_shards = 1;  // divides I
};
void low_rank_project(Exec& exec, const LowRankProject& arguments);

struct LowRankAdd {
  ConstView h_N;
  View y_TO;  // accumulated
  LowRankRuns runs;
};
void low_rank_add(Exec& exec, const LowRankAdd& arguments);

}  // namespace megalith::kernels
