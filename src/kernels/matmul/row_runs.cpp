// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/row_runs.h"

#include <algorithm>

namespace megalith::kernels {

int64_t end_of_pairs(std::span<const int32_t> cu_seqlens, int64_t end) {
  const auto next = std::ranges::lower_bound(cu_seqlens, end);
  if (next == cu_seqlens.end() || *next == end || next == cu_seqlens.begin()) return end;
  return end - (end - *(next - 1)) % 2;
}

std::vector<int32_t> runs_of_rows(std::span<const int32_t> cu_seqlens, int64_t begin, int64_t end) {
  std::vector<int32_t> runs{0};
  for (const int32_t start : cu_seqlens) {
    if (start > begin && start < end) runs.push_back(static_cast<int32_t>(start - begin));
  }
  runs.push_back(static_cast<int32_t>(end - begin));
  return runs;
}

}  // namespace megalith::kernels
