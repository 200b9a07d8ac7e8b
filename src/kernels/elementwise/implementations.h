// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of pointwise.cpp, activate.cpp, gated.cpp, lstm_cell.cpp and
// dropout.cpp. Arguments have been checked; `simd` takes f32, bf16 and f16.
#pragma once

#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/dropout.h"
#include "kernels/elementwise/gated.h"
#include "kernels/elementwise/lstm_cell.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::kernels {

struct Cast {
  ConstView x;
  View y;
};
void cast_simd(Exec& exec, const Cast& arguments);
void cast_reference(Exec& exec, const Cast& arguments);

struct Scale {
  View x;
  ConstView factor_view;  // [1] or [columns]; or, when absent, factor
  float factor = 1;
};
void scale_simd(Exec& exec, const Scale& arguments);
void scale_reference(Exec& exec, const Scale& arguments);

struct Softcap {
  View x;
  float scale, cap;
};
void softcap_simd(Exec& exec, const Softcap& arguments);
void softcap_reference(Exec& exec, const Softcap& arguments);

struct SoftcapBackward {
  ConstView dy, y;
  View dx;
  float scale, cap;
};
void softcap_backward_simd(Exec& exec, const SoftcapBackward& arguments);
void softcap_backward_reference(Exec& exec, const SoftcapBackward& arguments);

struct Add {
  ConstView a, b;
  View y;
};
void add_simd(Exec& exec, const Add& arguments);
void add_reference(Exec& exec, const Add& arguments);

struct Fill {
  View y;
  double value;
};
void fill_rows(Exec& exec, const Fill& arguments);

struct ActivationForward {
  ConstView x;
  View y;
  Activation kind;
};
void activation_forward_simd(Exec& exec, const ActivationForward& arguments);
void activation_forward_reference(Exec& exec, const ActivationForward& arguments);

struct ActivationBackward {
  ConstView dy, u;
  View dx;
  Activation kind;
};
void activation_backward_simd(Exec& exec, const ActivationBackward& arguments);
void activation_backward_reference(Exec& exec, const ActivationBackward& arguments);

void gated_forward_simd(Exec& exec, const GatedForward& arguments);
void gated_forward_reference(Exec& exec, const GatedForward& arguments);
void gated_backward_simd(Exec& exec, const GatedBackward& arguments);
void gated_backward_reference(Exec& exec, const GatedBackward& arguments);

/// Of f32 alone.
void lstm_cell_forward_simd(Exec& exec, const LstmCellForward& arguments);
void lstm_cell_forward_reference(Exec& exec, const LstmCellForward& arguments);
void lstm_cell_backward_simd(Exec& exec, const LstmCellBackward& arguments);
void lstm_cell_backward_reference(Exec& exec, const LstmCellBackward& arguments);

// Dropout with or without a residual, forward and backward, is one function.
void residual_dropout_simd(Exec& exec, const ResidualDropoutForward& arguments);
void residual_dropout_reference(Exec& exec, const ResidualDropoutForward& arguments);

}  // namespace megalith::kernels
