// SPDX-License-Identifier: Apache-2.0
// The machine's compute ceiling: the best rate of this program's matrix products on it. Model FLOP
// utilisation is relative to it.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// FLOP/s of the fastest of a few well-shaped products of `dtype` (f32 or bf16), each timed for
/// about `seconds` in all; takes some tens of MB of workspace. Not for the trace kind.
double gemm_ceiling(Exec& exec, DType dtype, double seconds);

}  // namespace megalith::kernels
