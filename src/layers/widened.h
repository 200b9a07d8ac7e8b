// SPDX-License-Identifier: Apache-2.0
// Weights in blocks beside something that trains (Dettmers et al. 2023, whose base is in 4 bits).
// Such a weight *is* the numbers of its blocks (tensor/blocks.h), rounded to the type of the set's
// other weights: a pass makes them, multiplies by them and drops them again. So every bit of a run
// is that of the run whose weights are these numbers, and the blocks save memory alone.
#pragma once

#include "kernels/exec.h"
#include "parameters/parameter.h"

namespace megalith::layers {

/// What passes read of a weight: what is stored, or of one in blocks that something trains beside
/// (Parameter::widens_to) its numbers, [local shape] in workspace, which `made` holds.
Weight as_numbers(kernels::Exec& exec, const parameters::Parameter& weight, device::Tensor& made);

}  // namespace megalith::layers
