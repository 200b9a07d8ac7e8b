// SPDX-License-Identifier: Apache-2.0
// The codes of a rank's weights, where they have one scale: cast once before the passes of a step.
#pragma once

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "parallel/mesh.h"
#include "parameters/parameter_set.h"
#include "precision/fp8.h"

namespace megalith::optim {

/// Takes the memory for them (precision::Fp8::allocate_weights).
void allocate_codes(precision::Fp8& fp8, const parameters::ParameterSet& set);
/// From the compute weights as they stand. Queued. Collective over `tensor`, the ranks that hold
/// parts of the same weights, where magnitudes are (`current`).
void cast_weights(kernels::Exec& exec, comm::Communicator& tensor, precision::Fp8& fp8,
                  const parameters::ParameterSet& set);

/// With spread state (sharding.h), in place of share_weights: each owner casts its elements of the
/// weights that have codes, and sends these to all data ranks, a byte each; all cast what is
/// frozen. Histories hear nothing of it. On return the codes are as cast_weights makes them;
/// compute weights that a rank does not own are not brought. Collective over the tensor and data
/// ranks.
void share_codes(kernels::Exec& exec, const parallel::Mesh& mesh, precision::Fp8& fp8,
                 const parameters::ParameterSet& set);
/// What cast_weights leaves in the histories, of the owned elements alone: the maximum over all
/// ranks is the same. Queued, local.
void record_weights(kernels::Exec& exec, precision::Fp8& fp8, const parameters::ParameterSet& set);

}  // namespace megalith::optim
