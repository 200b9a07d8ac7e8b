// SPDX-License-Identifier: Apache-2.0
// The ranks of a command: where they come from, and the cores each has.
#pragma once

#include <filesystem>
#include <optional>

#include "apps/launch.h"
#include "base/function_ref.h"
#include "comm/communicator.h"
#include "config/recipe.h"
#include "kernels/exec.h"

namespace megalith::apps {

/// What a rank is given to run with.
struct RankPlace {
  comm::Communicator& world;
  device::Device& device;
  bool handles_signals = true;  // for the signals of its process
};

/// Settles how many ranks there are and where: `asked` by --ranks (0: not), started by a launcher,
/// or named by parallel.*; the recipe's layout is set to it. UserError when they contradict.
std::optional<Launch> settle_ranks(config::Recipe& recipe, int asked);

/// The launcher that made this process one rank of several; nothing when ranks may be threads of
/// it. `asked` by --ranks (0: not). UserError when they contradict.
std::optional<Launch> launched(int asked);

struct RankOptions {
  int num_ranks = 1;
  int threads = 0;              // of a process; 0: all cores that it may use
  double deadline_seconds = 0;  // that ranks wait for each other; 0: the default
};
RankOptions rank_options(const config::Recipe& recipe);

/// Runs `body` on those of the ranks that are of this process: the one that the launcher made of
/// it, or all of them, as threads that share its cores. Returns when they have ended; the first
/// error of any rank is thrown.
void on_ranks(const RankOptions& options, const std::optional<Launch>& launch,
              FunctionRef<void(const RankPlace&)> body);

}  // namespace megalith::apps
