// SPDX-License-Identifier: Apache-2.0
// What all ranks of a run must see alike although each has its own clock and may catch signals.
#pragma once

#include "comm/communicator.h"

namespace megalith::train {

struct Agreed {
  int signal = 0;              // that some rank caught (the largest), or 0
  double elapsed_seconds = 0;  // rank 0's
  bool finite = true;          // what the last update wrote, on every rank
};

/// Collective.
Agreed agree(comm::Communicator& world, const Agreed& mine);

}  // namespace megalith::train
