// SPDX-License-Identifier: Apache-2.0
// One row for each sequence: its first or last token's, or the mean of all. Sequence s is rows
// [b, e) with b = cu_seqlens[s], e = cu_seqlens[s + 1]:
//   first   y_s = x_b
//   last    y_s = x_{e-1}
//   mean    y_s = (x_b + x_{b+1} + ...) / (e - b)      one chain of additions in increasing row
// and backward the adjoint of that: dx_t = dy_s, or dy_s / (e - b), where t was read, else +0.
// An empty sequence gives +0. Local; results are ready as of a later ticket of the device.
#pragma once

#include <cstdint>

#include "kernels/exec.h"

namespace megalith::kernels {

enum class Pooling : uint8_t { first, last, mean };

/// y is overwritten. It may have more rows than there are sequences: the others become +0.
struct PoolRowsForward {
  ConstView x_TH;        // f32, bf16 or f16 (f64: reference)
  ConstView cu_seqlens;  // i32 [sequences + 1], from 0 to T
  View y_UH;             // f32 (f64)
  Pooling pooling = Pooling::last;
};
void pool_rows_forward(Exec& exec, const PoolRowsForward& arguments);

/// dx is overwritten; the rows of dy beyond the sequences are not read.
struct PoolRowsBackward {
  ConstView dy_UH;       // f32 (f64)
  ConstView cu_seqlens;  // i32 [sequences + 1], from 0 to T
  View dx_TH;            // f32, bf16 or f16 (f64); rounded once
  Pooling pooling = Pooling::last;
};
void pool_rows_backward(Exec& exec, const PoolRowsBackward& arguments);

}  // namespace megalith::kernels
