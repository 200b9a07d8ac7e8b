// SPDX-License-Identifier: Apache-2.0
// Sums over rows: the gradient of a bias, and that of what multiplies columns.
#pragma once

#include "kernels/exec.h"
#include "kernels/reduction/token_shards.h"

namespace megalith::kernels {

/// db[p] += sum of the rows of dy that belong to partial p (token_shards.h): one chain of additions
/// per element in increasing row that continues from the stored value. With x, of dy's shape and
/// type, it is the sum of dy x, in fused multiply-adds. dy is f32, bf16 or f16 with any row stride,
/// db f32 (f64: all). Local; ready as of a later ticket.
struct ColumnSum {
  ConstView dy_TO;
  View db_PO;
  TokenShards shards = {};
  ConstView x_TO = {};  // absent: ones
};
void column_sum(Exec& exec, const ColumnSum& arguments);

}  // namespace megalith::kernels
