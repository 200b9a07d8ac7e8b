// SPDX-License-Identifier: Apache-2.0
// The gradient of weights that several layers share (Lan et al. 2020): the sum over the layers,
// from the last to the first, whichever pipeline stages they are on. Each layer's sum over tokens
// is kept apart until then, because it is carried on across micro-batches
// (docs/design/0012-shared-weights.md).
#pragma once

#include "kernels/exec.h"
#include "parallel/mesh.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// After the backward of a data shard: the sums of the first use on this rank become those of all
/// uses in the model, in the level that is selected; the sums of others are used up. Collective
/// over the pipeline.
void sum_uses(kernels::Exec& exec, const parallel::Mesh& mesh, parameters::ParameterSet& set);

}  // namespace megalith::optim
