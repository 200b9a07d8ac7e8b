// SPDX-License-Identifier: Apache-2.0
// Dequantises rows of a weight of any storage format. Local; ready as of a later ticket.
#pragma once

#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

/// y_t = row first + t of w. y is f32 with any row stride (f64 for a weight in f64) and is
/// overwritten. Exact for plain formats; values of blocks round to f32 (tensor/blocks.h).
struct WidenRows {
  Weight w_OI;
  View y_TI;
  int64_t first = 0;
};
void widen_rows(Exec& exec, const WidenRows& arguments);

}  // namespace megalith::kernels
