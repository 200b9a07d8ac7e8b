// SPDX-License-Identifier: Apache-2.0
#include "train/agreement.h"

#include <array>

namespace megalith::train {

Agreed agree(comm::Communicator& world, const Agreed& mine) {
  if (world.size() == 1) return mine;
  // None is negative: a rank without a say gives 0.
  std::array<double, 3> values{static_cast<double>(mine.signal),
                               world.rank() == 0 ? mine.elapsed_seconds : 0,
                               mine.finite ? 0.0 : 1.0};
  world.maximum(values, "agreement");
  return {static_cast<int>(values[0]), values[1], values[2] == 0};
}

}  // namespace megalith::train
