// SPDX-License-Identifier: Apache-2.0
// The activation of an MLP as an operation of its own. The matrix products can apply it in the same
// pass (kernels/matmul); both give the same bits.
#pragma once

#include "kernels/elementwise/activation.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// y = activation(x), element by element. f32, bf16 or f16, any mix (f64: both); same shape, row
/// strides allowed. y is overwritten and may alias x. Local; ready as of a later ticket.
void activation_forward(Exec& exec, ConstView x, View y, Activation kind);

/// dx = dy * activation'(u), where u is the x of forward. Same rules; dx may alias dy.
void activation_backward(Exec& exec, ConstView dy, ConstView u, View dx, Activation kind);

}  // namespace megalith::kernels
