// SPDX-License-Identifier: Apache-2.0
// Conversion between the floating types of 32, 16 and 8 bits.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// y = x, rounded once to nearest even, each of f32, bf16, f16, f8_e4m3, f8_e5m2. `overflow` says
/// what numbers beyond the range of 8 bits become (tensor/dtype.h); bf16 and f16 have infinity.
/// Same shape, row strides allowed; y is overwritten. Local; ready as of a later ticket.
void convert(Exec& exec, ConstView x, View y, Overflow overflow);

}  // namespace megalith::kernels
