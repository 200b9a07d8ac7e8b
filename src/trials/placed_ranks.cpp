// SPDX-License-Identifier: Apache-2.0
#include "trials/placed_ranks.h"

#include <vector>

#include "base/thread_pool.h"
#include "comm/backends.h"
#include "device/placement.h"

namespace megalith::trials {

void on_placed_ranks(int ranks, int threads,
                     FunctionRef<void(comm::Communicator& world, device::Device& device)> body) {
  device::Target target = device::cpu_target(threads);
  target.ranks_here = ranks;
  const std::vector<int> shares(static_cast<size_t>(ranks), threads);
  const std::vector<int> cores = device::cores_in_order();
  const bool all = static_cast<int>(cores.size()) == available_cores();
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    if (all) device::keep_on_cores(device::cores_of_rank(cores, shares, world.rank()));
    const auto device = device::make_device(target);
    body(world, *device);
  });
}

}  // namespace megalith::trials
