// SPDX-License-Identifier: Apache-2.0
// Rows of a weight as numbers, dequantised where it is held in blocks.
#pragma once

#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

/// y_t = row first + t of w. Blocks are widened to f32 (tensor/blocks.h) and rounded once to
/// nearest even: y_TI is f32, bf16 or f16. Plain numbers are cast (elementwise/pointwise.h), f64
/// too. Row strides of y are allowed; overwrites. Local; ready as of a later ticket.
void widen(Exec& exec, const Weight& w_OI, View y_TI, int64_t first = 0);

}  // namespace megalith::kernels
