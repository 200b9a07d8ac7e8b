// SPDX-License-Identifier: Apache-2.0
// The implementations of low_rank.h; arguments have been checked.
#pragma once

#include <algorithm>

#include "kernels/matmul/low_rank.h"

namespace megalith::kernels {

/// Calls body(block) for the parts of b's blocks within `columns`, ascending.
template <typename Body>
void for_blocks(const LowRankRun& run, Range columns, const Body& body) {
  if (run.blocks.empty()) return body(LowRankBlock{columns, {0, 0}, run.rank});
  const auto is_before = [&](const LowRankBlock& b) { return b.columns.end <= columns.begin; };
  auto at = std::ranges::partition_point(run.blocks, is_before);
  for (; at != run.blocks.end() && at->columns.begin < columns.end; ++at) {
    LowRankBlock part = *at;
    part.columns.end = std::min(part.columns.end, columns.end);
    if (const int64_t before = columns.begin - part.columns.begin; before > 0) {
      part.columns.begin = columns.begin;
      if (before % 2 == 1) std::swap(part.first[0], part.first[1]);
    }
    body(part);
  }
}

void low_rank_project_simd(Exec& exec, const LowRankProject& arguments);
void low_rank_project_reference(Exec& exec, const LowRankProject& arguments);
void low_rank_add_simd(Exec& exec, const LowRankAdd& arguments);
void low_rank_add_reference(Exec& exec, const LowRankAdd& arguments);

}  // namespace megalith::kernels
