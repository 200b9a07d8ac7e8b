// SPDX-License-Identifier: Apache-2.0
// Matrix products and reads of memory here, all ranks at once.
#pragma once

#include <vector>

#include "clusters/cluster.h"

namespace megalith::trials {

struct MachineRates {
  std::vector<clusters::ProductRate> products;  // f32, bf16: of one rank
  double bandwidth = 0;                         // of memory, of one rank
  double product_error = 0;                     // median of the curve by depth, relative
};

/// Of each of `ranks` ranks with `threads` threads, while all work. The peak is the fastest of well
/// shaped products; share and depth are fitted to products of depths from 32 to 2048.
MachineRates measure_rates(int ranks, int threads, int samples);

}  // namespace megalith::trials
