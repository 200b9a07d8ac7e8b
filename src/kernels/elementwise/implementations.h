// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of pointwise.cpp, gelu.cpp and dropout.cpp. Arguments have
// been checked; `simd` takes f32 and bf16.
#pragma once

#include "kernels/elementwise/dropout.h"
#include "kernels/elementwise/gelu.h"
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
  ConstView factor_view;  // or, when absent, factor
  float factor = 1;
};
void scale_simd(Exec& exec, const Scale& arguments);
void scale_reference(Exec& exec, const Scale& arguments);

struct Add {
  ConstView a, b;
  View y;
};
void add_simd(Exec& exec, const Add& arguments);
void add_reference(Exec& exec, const Add& arguments);

struct GeluForward {
  ConstView x;
  View y;
  Activation kind;
};
void gelu_forward_simd(Exec& exec, const GeluForward& arguments);
void gelu_forward_reference(Exec& exec, const GeluForward& arguments);

struct GeluBackward {
  ConstView dy, u;
  View dx;
  Activation kind;
};
void gelu_backward_simd(Exec& exec, const GeluBackward& arguments);
void gelu_backward_reference(Exec& exec, const GeluBackward& arguments);

// Dropout with or without a residual, forward and backward, is one function.
void residual_dropout_simd(Exec& exec, const ResidualDropoutForward& arguments);
void residual_dropout_reference(Exec& exec, const ResidualDropoutForward& arguments);

}  // namespace megalith::kernels
