// SPDX-License-Identifier: Apache-2.0
// The whole model on one rank, for text samples: pieces come in one after the other.
#pragma once

#include "engine/engine.h"

namespace megalith::engine {

/// Copies the compute weights of all ranks into `into`, a set of the whole model on `device`, on
/// rank 0; the other ranks give null for both. Rank 0 takes memory for one piece at a time, class
/// workspace of `device`. Collective over the world.
void gather_weights(Engine& engine, parameters::ParameterSet* into, device::Device* device);

}  // namespace megalith::engine
