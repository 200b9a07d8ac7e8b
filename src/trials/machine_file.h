// SPDX-License-Identifier: Apache-2.0
// This machine as a cluster file: measured, fitted and written down, each figure with how it was
// measured.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "clusters/cluster.h"
#include "trials/kernel_samples.h"
#include "trials/link_samples.h"
#include "trials/product_samples.h"
#include "trials/serving_samples.h"

namespace megalith::trials {

struct MachineOptions {
  int ranks = 0;    // devices of the file, each a rank; 0: one for each core
  int threads = 0;  // of a rank; 0: its part of the cores
  int samples = 5;
  std::function<void(const std::string&)> progress;  // a line for people; may be empty
};

/// How ranks share cores: `at_once` of them run side by side, each on `threads`.
struct SharedCores {
  int ranks = 1, at_once = 1, threads = 1;
};
/// `ranks` 0: one for each core; `threads` 0: the cores shared. UserError when the cores cannot be
/// shared equally, or are too few.
SharedCores share_cores(int ranks, int cores, int threads = 0);

struct MachineFigures : SharedCores {
  MachineRates rates;
  double gap_seconds = 0;
  std::vector<FittedRate> kernels;
  std::vector<FittedRate> serving;                // of passes that read and write text
  std::vector<std::pair<int, FittedLink>> links;  // that join so many ranks, from the inside out
  double other_load = 0;                          // of the cores' time, by other programs
  double seconds = 0;
};

/// Measures for a minute or two. UserError as share_cores().
MachineFigures measure_machine(const MachineOptions& options);

/// The file; `what` says when and by which version.
std::string machine_yaml(const MachineFigures& figures, const std::string& what);

}  // namespace megalith::trials
