// SPDX-License-Identifier: Apache-2.0
// A training state as logical tensors and numbers: what goes into a checkpoint and comes out of it.
#pragma once

#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "engine/engine.h"
#include "engine/sharded_optimizer_state.h"

namespace megalith::engine {

/// What this rank writes: masters under the parameters' names, moments under "adamw.m." and
/// "adamw.v." + name, each its piece. Over all ranks every tensor is covered once. Valid as long as
/// `spread`, new for each save; collective over the data ranks when state is spread over them.
std::vector<checkpoint::TensorSource> state_tensors(Engine& engine, ShardedOptimizerState& spread);
/// Bytes of each of these, in order, and of all. Local.
std::vector<int64_t> state_sizes(const Engine& engine);
int64_t state_bytes(const Engine& engine);
/// The same for the rank at any place, which has these parameters.
int64_t state_bytes(const parameters::ParameterSet& set, const Settings& settings,
                    const parallel::Coordinates& at);
/// By parameter: master, first moment, second moment; which of the data ranks beside the rank at
/// this place writes it. -1: one of another group.
std::vector<int> state_writers(const parameters::ParameterSet& set, const Settings& settings,
                               const parallel::Coordinates& at);
/// Reads every tensor of the engine; IntegrityError when one is missing or has another shape or
/// type.
void load_state(const checkpoint::Reader& reader, Engine& engine);

}  // namespace megalith::engine
