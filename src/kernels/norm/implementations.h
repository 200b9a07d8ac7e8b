// SPDX-License-Identifier: Apache-2.0
// The implementations behind layer_norm.cpp's lists. Arguments have been checked; `simd` takes f32
// and bf16.
#pragma once

#include "kernels/norm/layer_norm.h"

namespace megalith::kernels {

void layer_norm_forward_simd(Exec& exec, const LayerNormForward& arguments);
void layer_norm_forward_reference(Exec& exec, const LayerNormForward& arguments);
void layer_norm_backward_simd(Exec& exec, const LayerNormBackward& arguments);
void layer_norm_backward_reference(Exec& exec, const LayerNormBackward& arguments);

}  // namespace megalith::kernels
