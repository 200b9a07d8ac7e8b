// SPDX-License-Identifier: Apache-2.0
// Optimizer state that is spread over data ranks (ZeRO stage 1), as checkpoints have it: logical
// tensors cut by the tensor axis alone. To write: each tensor's runs are brought together on one
// data rank, another one each time, so that no rank holds more than its share of them. To read: a
// rank takes its run out of the whole local tensor.
#pragma once

#include <deque>

#include "engine/engine.h"

namespace megalith::engine {

class ShardedOptimizerState {
 public:
  explicit ShardedOptimizerState(Engine& engine) : engine_(engine) {}

  /// Tensors of parameter `index`. One that is not spread is given as it is, on every rank. Else
  /// collective over the data ranks: [local shape] on data rank `root`, valid as long as this
  /// object; absent on the others. Memory: class workspace, as large as what comes together here.
  /// Of a trained parameter the master, of a frozen one what is stored.
  ConstView weights(size_t index, int root);
  /// `which` of what the optimizer keeps (AdamW::states).
  ConstView optimizer_state(size_t index, size_t which, int root);

  /// state (a moment, or an owned_master()) = this rank's part of the whole local tensor in host
  /// memory. Done on return.
  void load(size_t index, View state, const void* whole);

 private:
  ConstView whole(size_t index, ConstView owned, int root);
  const parameters::Parameter& parameter(size_t index) const;
  Engine& engine_;
  std::deque<device::Tensor> held_;
};

}  // namespace megalith::engine
