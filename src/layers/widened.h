// SPDX-License-Identifier: Apache-2.0
// Frozen weights in blocks beside something that trains (QLoRA, Dettmers et al. 2023). Such a
// weight *is* its dequantised values (tensor/blocks.h), rounded to the type of the set's other
// weights: a pass makes them in workspace, multiplies by them and drops them. So a run has the bits
// of one whose weights are these values, and the blocks save memory alone.
#pragma once

#include "kernels/exec.h"
#include "parameters/parameter.h"

namespace megalith::layers {

/// What passes read of a weight: the stored one, or, of one in blocks beside something that trains
/// (Parameter::widens_to), its dequantised values: [local shape] in workspace, held by `made`.
/// Local; queued.
Weight as_numbers(kernels::Exec& exec, const parameters::Parameter& weight, device::Tensor& made);

}  // namespace megalith::layers
