// SPDX-License-Identifier: Apache-2.0
// The codes of a rank's weights, where they have one scale: cast once before the passes of a step.
#pragma once

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "parameters/parameter_set.h"
#include "precision/fp8.h"

namespace megalith::optim {

/// Takes the memory for them (precision::Fp8::allocate_weights).
void allocate_codes(precision::Fp8& fp8, const parameters::ParameterSet& set);
/// From the compute weights as they stand. Queued. Collective over `tensor`, the ranks that hold
/// parts of the same weights, where magnitudes are (`current`).
void cast_weights(kernels::Exec& exec, comm::Communicator& tensor, precision::Fp8& fp8,
                  const parameters::ParameterSet& set);

}  // namespace megalith::optim
