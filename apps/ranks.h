// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: where they come from, the cores each has, the table of who does what.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "account/plan.h"
#include "apps/launch.h"
#include "base/function_ref.h"
#include "comm/communicator.h"
#include "config/recipe.h"
#include "engine/settings.h"
#include "text/tokenizer.h"

namespace megalith::apps {

/// What a rank is given to run with.
struct RankPlace {
  comm::Communicator& world;
  device::Device& device;
  bool listens = true;  // for the signals of its process
};

/// Settles how many ranks there are and where: `asked` by --ranks (0: not), started by a launcher,
/// or named by parallel.*; the recipe's layout is set to it. UserError when they contradict.
std::optional<Launch> settle_ranks(config::Recipe& recipe, int asked);

/// Runs `body` on the ranks of the recipe's layout that are of this process: the one that the
/// launcher made of it, or all of them, as threads that share its cores. Returns when they have
/// ended; the first error of any rank is thrown. Under `fast` numerics all ranks choose products
/// alike, and as the run's newest checkpoint has it.
void on_ranks(const config::Recipe& recipe, const std::optional<Launch>& launch,
              FunctionRef<void(const RankPlace&)> body);

/// What a run takes beside the process itself.
struct MemoryPlan {
  std::vector<account::MemoryByClass> of_rank;
  int64_t sample_bytes = 0;  // of text samples, on rank 0 beside what is its
};

/// Before anything is allocated: UserError when the ranks of this machine, threads or processes, do
/// not fit into its memory together, or those of one of its control groups into that, with the text
/// samples that rank 0 writes. The first rank of each machine and group asks for all of it.
/// `tokenizer` may be null. What was planned is returned on rank 0. Collective.
std::optional<MemoryPlan> require_memory(const RankPlace& place, const config::Recipe& recipe,
                                         const text::Tokenizer* tokenizer);

/// Rank by rank what of the model and the batch is where, with its planned memory; nothing for one
/// rank. At most a screenful.
void print_layout(const engine::Settings& settings,
                  const std::vector<account::MemoryByClass>& memories, int threads);

}  // namespace megalith::apps
