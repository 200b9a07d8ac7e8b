// SPDX-License-Identifier: Apache-2.0
#include "engine/sharded_optimizer_state.h"

#include "base/check.h"
#include "optim/sharding.h"

namespace megalith::engine {

const parameters::Parameter& ShardedOptimizerState::parameter(size_t index) const {
  return engine_.parameters().all().at(index);
}

ConstView ShardedOptimizerState::weights(size_t index, int root) {
  const parameters::Parameter& parameter = this->parameter(index);
  const bool everywhere =
      parameter.compute_is_master() || engine_.parameters().storage().owners == 1;
  return everywhere ? ConstView(parameter.master()) : whole(index, parameter.owned_master(), root);
}

ConstView ShardedOptimizerState::optimizer_state(size_t index, size_t which, int root) {
  const View owned = engine_.optimizer().states(index)[which];
  return engine_.parameters().storage().owners == 1 ? owned : whole(index, owned, root);
}

ConstView ShardedOptimizerState::whole(size_t index, ConstView owned, int root) {
  const parameters::Parameter& parameter = this->parameter(index);
  MEGA_CHECK_EQ(owned.num_elements(), parameter.owned().count);
  kernels::Exec exec(engine_.device());
  comm::Communicator& data = engine_.mesh().data();
  View whole;
  if (data.rank() == root) {
    held_.push_back(exec.workspace.tensor(owned.dtype(), Shape{parameter.local_elements()}));
    whole = held_.back();
  }
  optim::collect_owned(exec, data, engine_.parameters(), index,
                       owned.reshape(Shape{parameter.owned().count}), root, whole);
  return whole.absent() ? whole : whole.reshape(parameter.local_shape());
}

void ShardedOptimizerState::load(size_t index, View state, const void* whole) {
  const bool is_whole = state.num_elements() == parameter(index).local_elements();
  const int64_t begin = is_whole ? 0 : parameter(index).owned().begin;
  engine_.device().wait(engine_.device().copy_to_device(
      state, static_cast<const std::byte*>(whole) + begin * bytes_of(state.dtype())));
}

}  // namespace megalith::engine
