// SPDX-License-Identifier: Apache-2.0
// Dequantises weights that are held in blocks, into rows that every product reads.
#pragma once

#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

/// y = the values of a weight in blocks (tensor/blocks.h: f32), rounded once to nearest even.
/// y_OI: f32, bf16 or f16, [w's shape], row strides allowed; overwritten. Local; ready as of a
/// later ticket.
void widen(Exec& exec, const Weight& w_OI, View y_OI);

}  // namespace megalith::kernels
