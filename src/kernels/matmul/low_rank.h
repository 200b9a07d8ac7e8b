// SPDX-License-Identifier: Apache-2.0
// The two products of low-rank adapters (Hu et al. 2022), of many runs of rows at once, each with
// factors of its own: few columns, so that what a row costs is reading its factors, and a call of
// linear_forward for each run would cost more than that.
//
//   low_rank_project    h = x a      a [I, R]
//   low_rank_add        y = round(y + h b)      b [R, O]
//
// Arithmetic: the f32 chain of linear.h, in increasing index, the first one inside each of
// `k_shards` equal shards of I whose sums combine in the same tree: bits are those of
// linear_forward with a^T and b^T, then an addition. h is f32; x and y are f32 or bf16, rows at any
// distance.
// Rows that no run has are left alone. Local; ready as of a later ticket. No scratch.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/exec.h"

namespace megalith::kernels {

/// Of one call.
inline constexpr size_t kMostLowRankRuns = 16;
inline constexpr int kMostLowRankShards = 1 << 15;

/// Rows [begin, begin + count) with a factor; their h is [count, R] from element `first` of h_N.
struct LowRankRun {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t first = 0;
  ConstView factor;  // f32, contiguous
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
