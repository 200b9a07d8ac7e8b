// SPDX-License-Identifier: Apache-2.0
// The operations that only move or combine elements: cast, scale, softcap, add, fill. The operands
// of a call have the same shape, with any number of dimensions, and may have row strides; a 1-D
// view is contiguous. All compute in f32 and round once when storing; f64 storage goes to the
// reference. Local; results overwrite, and are ready as of a later ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// y = x, rounded once to y's type. f64, f32, bf16 or f16, any pair. y may be x itself if the types
/// agree.
void cast(Exec& exec, ConstView x, View y);

/// x = x * factor, in place. f32, bf16 or f16 (f64: reference).
void scale(Exec& exec, View x, float factor);
/// The same with a factor that is on the device: f32 [1] (for f64 x: f32 or f64), or f32 [C], one
/// for each column of x [..., C].
void scale(Exec& exec, View x, ConstView factor);

/// x = cap tanh(scale x / cap), in place: scale x, kept within cap > 0 (Gemma 2). Types as scale.
void softcap(Exec& exec, View x, float scale, float cap);
/// Its gradient, from its result y: dx = dy scale (1 - (y / cap)^2). dx may alias dy or y.
void softcap_backward(Exec& exec, ConstView dy, ConstView y, View dx, float scale, float cap);

/// y = a + b. Each f32, bf16 or f16 (f64: all three). y may alias a or b.
void add(Exec& exec, ConstView a, ConstView b, View y);

/// Every element of y = value, rounded to y's type: f64, f32, bf16 or f16, or i64 or i32 for whole
/// numbers.
void fill(Exec& exec, View y, double value);

}  // namespace megalith::kernels
