// SPDX-License-Identifier: Apache-2.0
// The implementations behind rotary.cpp's lists. Arguments have been checked; `simd` takes f32
// angles.
#pragma once

#include "kernels/rotary/rotary.h"

namespace megalith::kernels {

void rotary_angles_simd(Exec& exec, const RotaryAngles& arguments);
void rotary_angles_reference(Exec& exec, const RotaryAngles& arguments);
void rotary_apply_simd(Exec& exec, const RotaryApply& arguments);
void rotary_apply_reference(Exec& exec, const RotaryApply& arguments);

}  // namespace megalith::kernels
