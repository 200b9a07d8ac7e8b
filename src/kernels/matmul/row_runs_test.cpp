// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/row_runs.h"

#include <gtest/gtest.h>

namespace megalith::kernels {
namespace {

TEST(RowRuns, PiecesEndWherePairsDo) {
  const std::vector<int32_t> cu{0, 3, 3, 8, 9};
  const std::vector<int64_t> ends{0, 0, 2, 3, 3, 5, 5, 7, 8, 9};
  for (int64_t end = 0; end <= 9; ++end)
    EXPECT_EQ(end_of_pairs(cu, end), ends[static_cast<size_t>(end)]) << end;
}

TEST(RowRuns, AreTheSequencesOfAPiece) {
  const std::vector<int32_t> cu{0, 3, 3, 8, 9};
  EXPECT_EQ(runs_of_rows(cu, 0, 9), (std::vector<int32_t>{0, 3, 3, 8, 9}));
  EXPECT_EQ(runs_of_rows(cu, 2, 7), (std::vector<int32_t>{0, 1, 1, 5}));
  EXPECT_EQ(runs_of_rows(cu, 3, 8), (std::vector<int32_t>{0, 5}));
}

}  // namespace
}  // namespace megalith::kernels
