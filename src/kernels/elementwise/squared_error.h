// SPDX-License-Identifier: Apache-2.0
// The squared error of rows of O numbers against their targets, and its gradient:
//   loss_u  = (1 / O) sum_o (y_uo - t_uo)^2      one chain in increasing o
//   dy_uo   = (2 / O) (weight_u scale) (y_uo - t_uo)
// the gradient of scale * sum_u weight_u loss_u. Rows are contiguous. Local; ready as of a later
// ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// loss is overwritten.
struct SquaredError {
  ConstView y_UO;        // f32 (f64: reference)
  ConstView targets_UO;  // f32
  View loss_U;           // the type of y
};
void squared_error(Exec& exec, const SquaredError& arguments);

/// dy is overwritten; it may be y. A row of weight 0 gets exactly 0, whatever stands in it.
struct SquaredErrorGradient {
  ConstView y_UO;        // f32 (f64: reference)
  ConstView targets_UO;  // f32
  ConstView weight_U;    // f32
  float scale = 1;
  View dy_UO;  // the type of y
};
void squared_error_gradient(Exec& exec, const SquaredErrorGradient& arguments);

}  // namespace megalith::kernels
