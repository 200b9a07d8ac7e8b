// SPDX-License-Identifier: Apache-2.0
// The implementations behind sinusoidal.cpp's lists. Arguments have been checked; `simd` takes f32
// and bf16.
#pragma once

#include "kernels/embedding/sinusoidal.h"

namespace megalith::kernels {

void sinusoidal_forward_simd(Exec& exec, const SinusoidalForward& arguments);
void sinusoidal_forward_reference(Exec& exec, const SinusoidalForward& arguments);
void sinusoidal_backward_simd(Exec& exec, const SinusoidalBackward& arguments);
void sinusoidal_backward_reference(Exec& exec, const SinusoidalBackward& arguments);

}  // namespace megalith::kernels
