// SPDX-License-Identifier: Apache-2.0
// Rows of a weight as numbers, whatever it is stored in. Local; ready as of a later ticket.
#pragma once

#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

/// y_t = row first + t of w. y is f32, whose rows may have strides; of a weight in f64 it is f64.
/// Exact, but for what blocks round to f32 (tensor/blocks.h). Overwrites.
struct WidenRows {
  Weight w_OI;
  View y_TI;
  int64_t first = 0;
};
void widen_rows(Exec& exec, const WidenRows& arguments);

}  // namespace megalith::kernels
