// SPDX-License-Identifier: Apache-2.0
// Norms of the rows of a product's weight with low-rank factors beside it, by which DoRA divides
// them (Liu et al. 2024, section 4): n_o = || w_o + sum over r of b_ro a_r ||.
// An element of the sum is the f32 chain of kernels/matmul/linear.h that goes on from the weight,
// in increasing r; squares add up in canonical shards (kernels/reduction/row_norms.h): the bits
// depend on no layout, and where factors are zero they are those of the weight's own norms.
#pragma once

#include <string_view>

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::low_rank {

struct RowNorms {
  Weight w_OI;           // in any format
  ConstView a_RI, b_RO;  // f32 (f64), the scale in b; absent: nothing is beside the weight
  View n_O;              // f32 (f64 of a weight in f64), overwritten
  int k_shards = 1;      // canonical ones of I on this rank
  bool sums = false;     // other tensor ranks have the other shards: collective
};
/// Queued. Scratch: some rows of the weight in f32.
void row_norms(kernels::Exec& exec, comm::Communicator& tensor, const RowNorms& arguments,
               std::string_view label);

}  // namespace megalith::low_rank
