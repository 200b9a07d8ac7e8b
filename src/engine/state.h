// SPDX-License-Identifier: Apache-2.0
// A training state as logical tensors: what goes into a checkpoint and comes out of it. Each has
// the shape of a parameter and is cut like it: the weights under the parameter's name (of a trained
// one the master, of a frozen one what is stored), and what the optimizer keeps of it under a
// prefix that the optimizer gives.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "engine/engine.h"
#include "engine/sharded_optimizer_state.h"

namespace megalith::engine {

struct StateTensor {
  size_t parameter = 0;             // in the set
  std::optional<size_t> optimizer;  // which of the optimizer's; none: the weights
  /// Instead of a parameter's: which of the arrays of scales, in the order of scale_arrays(). Every
  /// rank has them whole.
  std::optional<size_t> scales;
  std::string name;
  DType dtype = DType::f32;
  int64_t bytes = 0;  // on a rank
  /// Which of the data ranks beside the rank at this place writes it; -1: one of another group.
  int writer = -1;
};

/// Of all parameters of the rank at any place, which has `set`, in order. A function of shapes:
/// needs no memory and no optimizer.
std::vector<StateTensor> state_list(const parameters::ParameterSet& set, const Settings& settings,
                                    const parallel::Coordinates& at);
inline std::vector<StateTensor> state_list(const Engine& engine) {
  return state_list(engine.parameters(), engine.settings(), engine.mesh().at());
}

/// What this rank writes, each its piece. Over all ranks every tensor is covered once. Valid as
/// long as `spread`, new for each save; collective over the data ranks when state is spread over
/// them.
std::vector<checkpoint::TensorSource> state_tensors(Engine& engine, ShardedOptimizerState& spread);
/// Bytes of each of these, in order, and of all. Local.
std::vector<int64_t> state_sizes(const Engine& engine);
int64_t state_bytes(const Engine& engine);
/// Reads every tensor of the engine. Local; done on return. UserError when something trains that
/// was frozen then; IntegrityError when a tensor is missing or has another shape or type (frozen
/// weights may have another).
void load_state(const checkpoint::Reader& reader, Engine& engine);

}  // namespace megalith::engine
