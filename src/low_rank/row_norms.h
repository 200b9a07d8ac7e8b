// SPDX-License-Identifier: Apache-2.0
// L2 norms of the rows of a weight plus its low-rank update, by which DoRA divides them (Liu et al.
// 2024, section 4): n_o = || w_o + sum over r of b_ro a_r ||.
// An element of the sum is the f32 chain of kernels/matmul/linear.h in increasing r, starting from
// the weight; squares add up in canonical shards (kernels/reduction/row_norms.h): the bits depend
// on no layout, and where the update is zero they are those of the weight's own norms.
#pragma once

#include <string_view>

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::low_rank {

struct RowNorms {
  Weight w_OI;           // in any format
  ConstView a_RI, b_RO;  // f32 (f64), the scale in b; absent: no update
  View n_O;              // f32 (f64 of a weight in f64), overwritten
  int k_shards = 1;      // canonical shards of I on this rank
  bool sums = false;     // other tensor ranks have the other shards: collective
};
/// Queued. Workspace: rows of the weight in n's type, 2^18 elements or 16 rows of them.
void row_norms(kernels::Exec& exec, comm::Communicator& tensor, const RowNorms& arguments,
               std::string_view label);

}  // namespace megalith::low_rank
