// SPDX-License-Identifier: Apache-2.0
// exp, log, tanh, erf and relatives as polynomials on + - x / sqrt and FMA only, each operation
// correctly rounded: the same bits on every CPU, instruction set and vector width, which libm does
// not promise. Each function is a template over an `Ops` type that names those operations for one
// float or for a vector of them, so scalar code (`Float32Ops`) and the Highway kernels run the same
// operations in the same order.
// Coefficients are our own minimax fits (Remez); the error of each is given beside it. Bounds in
// ulp (units in the last place of the result) are measured against long double over the whole
// range by elementary_test.cpp. A NaN operand gives a NaN.
#pragma once

#include <limits>

#include "math/elementary_double.h"
#include "math/elementary_ops.h"

namespace megalith::elementary {

#include "math/elementary_functions-inl.h"

/// The functions of one float.
inline float exp(float x) { return exp<Float32Ops>(x); }
inline float log(float x) { return log<Float32Ops>(x); }
inline float sigmoid(float x) { return sigmoid<Float32Ops>(x); }
inline float tanh(float x) { return tanh<Float32Ops>(x); }
inline float erf(float x) { return erf<Float32Ops>(x); }
inline float gelu_erf(float x) { return gelu_erf<Float32Ops>(x); }
inline float gelu_erf_grad(float x) { return gelu_erf_grad<Float32Ops>(x); }
inline float gelu_tanh(float x) { return gelu_tanh<Float32Ops>(x); }
inline float gelu_tanh_grad(float x) { return gelu_tanh_grad<Float32Ops>(x); }
inline float gelu_quick(float x) { return gelu_quick<Float32Ops>(x); }
inline float gelu_quick_grad(float x) { return gelu_quick_grad<Float32Ops>(x); }
inline float silu(float x) { return silu<Float32Ops>(x); }
inline float silu_grad(float x) { return silu_grad<Float32Ops>(x); }

}  // namespace megalith::elementary
