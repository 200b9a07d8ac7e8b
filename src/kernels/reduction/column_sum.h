// SPDX-License-Identifier: Apache-2.0
// Sum over rows: the gradient of a bias.
#pragma once

#include "kernels/exec.h"
#include "kernels/reduction/token_shards.h"

namespace megalith::kernels {

/// db[p] += sum of the rows of dy that belong to partial p (token_shards.h): one chain of additions
/// per element in increasing row that continues from the stored value. dy is f32 or bf16 with any
/// row stride, db f32 (f64: both). Local; ready as of a later ticket.
struct ColumnSum {
  ConstView dy_TO;
  View db_PO;
  TokenShards shards = {};
};
void column_sum(Exec& exec, const ColumnSum& arguments);

}  // namespace megalith::kernels
