// SPDX-License-Identifier: Apache-2.0
// The cell of a long short-term memory (Hochreiter & Schmidhuber 1997), with the gate that forgets
// (Gers et al. 2000). The columns of u are four blocks of H: what is let in, what is kept, the
// candidate, what is let out.
//   i = sigmoid(u_i)   f = sigmoid(u_f)   g = tanh(u_g)   o = sigmoid(u_o)
//   c = f before + i g          the second product is rounded, the first one is fused with the sum
//   h = o tanh(c)
// f32 (f64: reference), the same type throughout; row strides allowed. Rows are independent: one
// step of one sequence each. Local; ready as of a later ticket.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// c and h are overwritten; they must not overlap u.
struct LstmCellForward {
  ConstView u_TG;       // [T, 4 H]
  ConstView before_TH;  // c of the step before; absent: zero
  View c_TH;
  View h_TH;
};
void lstm_cell_forward(Exec& exec, const LstmCellForward& arguments);

///   d = dh o (1 - tanh(c)^2) + dc       the gradient of c
///   du_i = d g i (1 - i)      du_f = d before f (1 - f)
///   du_g = d i (1 - g^2)      du_o = dh tanh(c) o (1 - o)
///   dc = d f                  that of `before`
/// du is overwritten. dc comes in as what the step behind gives and goes out as what the step
/// before is given. Neither overlaps an input.
struct LstmCellBackward {
  ConstView dh_TH;
  ConstView u_TG;       // what forward was given
  ConstView before_TH;  // likewise
  ConstView c_TH;       // what it gave
  View dc_TH;           // in and out
  View du_TG;
};
void lstm_cell_backward(Exec& exec, const LstmCellBackward& arguments);

}  // namespace megalith::kernels
