// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of layer_norm.cpp and head_norm.cpp. Arguments have been
// checked; `simd` takes f32 and bf16.
#pragma once

#include "kernels/norm/head_norm.h"
#include "kernels/norm/layer_norm.h"

namespace megalith::kernels {

void layer_norm_forward_simd(Exec& exec, const LayerNormForward& arguments);
void layer_norm_forward_reference(Exec& exec, const LayerNormForward& arguments);
void layer_norm_backward_simd(Exec& exec, const LayerNormBackward& arguments);
void layer_norm_backward_reference(Exec& exec, const LayerNormBackward& arguments);

void head_norm_forward_simd(Exec& exec, const HeadNormForward& arguments);
void head_norm_forward_reference(Exec& exec, const HeadNormForward& arguments);
void head_norm_backward_simd(Exec& exec, const HeadNormBackward& arguments);
void head_norm_backward_reference(Exec& exec, const HeadNormBackward& arguments);

}  // namespace megalith::kernels
