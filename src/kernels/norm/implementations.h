// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of layer_norm.cpp, head_norm.cpp and whole_norm.cpp.
// Arguments have been checked; `simd` takes f32, bf16 and f16.
#pragma once

#include "kernels/norm/head_norm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/whole_norm.h"

namespace megalith::kernels {

void layer_norm_forward_simd(Exec& exec, const LayerNormForward& arguments);
void layer_norm_forward_reference(Exec& exec, const LayerNormForward& arguments);
void layer_norm_backward_simd(Exec& exec, const LayerNormBackward& arguments);
void layer_norm_backward_reference(Exec& exec, const LayerNormBackward& arguments);

void head_norm_forward_simd(Exec& exec, const HeadNormForward& arguments);
void head_norm_forward_reference(Exec& exec, const HeadNormForward& arguments);
void head_norm_backward_simd(Exec& exec, const HeadNormBackward& arguments);
void head_norm_backward_reference(Exec& exec, const HeadNormBackward& arguments);

void whole_norm_sums_simd(Exec& exec, const WholeNormSums& arguments);
void whole_norm_sums_reference(Exec& exec, const WholeNormSums& arguments);
void whole_norm_forward_simd(Exec& exec, const WholeNormForward& arguments);
void whole_norm_forward_reference(Exec& exec, const WholeNormForward& arguments);
void whole_norm_gradient_sums_simd(Exec& exec, const WholeNormGradientSums& arguments);
void whole_norm_gradient_sums_reference(Exec& exec, const WholeNormGradientSums& arguments);
void whole_norm_backward_simd(Exec& exec, const WholeNormBackward& arguments);
void whole_norm_backward_reference(Exec& exec, const WholeNormBackward& arguments);
void whole_norm_weight_gradient_simd(Exec& exec, const WholeNormWeightGradient& arguments);
void whole_norm_weight_gradient_reference(Exec& exec, const WholeNormWeightGradient& arguments);

}  // namespace megalith::kernels
