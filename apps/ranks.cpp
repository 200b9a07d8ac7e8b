// SPDX-License-Identifier: Apache-2.0
#include "apps/ranks.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "apps/command.h"
#include "apps/version.h"
#include "base/host.h"
#include "base/integer.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "config/layouts.h"
#include "device/placement.h"
#include "train/timeout_policy.h"

namespace megalith::apps {
namespace {

/// Rank `rank`'s share of the threads of a process with `ranks` ranks; at least one.
int share_of(int threads, int rank, int ranks) {
  return std::max(1, threads / ranks + (rank < threads % ranks ? 1 : 0));
}

/// This process's machine and the cores that it may use there: processes that print the same share
/// them.
std::string cores_name() {
  std::string name = host_name();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) name += CPU_ISSET(cpu, &set) ? '1' : '0';
  }
  return name;
}

/// Threads of this rank of an MPI launch: the recipe's, or its share of the cores that it and other
/// ranks may use alike. Collective.
int threads_of_process(comm::Communicator& world, int threads) {
  const std::string mine = cores_name();
  int before = 0, sharing = 0, rank = 0;
  for (const std::string& theirs : world.exchange(mine, "cores")) {
    if (theirs == mine) {
      ++sharing;
      before += rank < world.rank() ? 1 : 0;
    }
    ++rank;
  }
  return threads > 0 ? threads : share_of(available_cores(), before, sharing);
}

void check_size(const comm::Communicator& world, int num_ranks, const Launch& launch) {
  if (launch.size != 0 && launch.size != world.size()) {
    throw UserError(
        "{} started {} ranks, but MPI has connected {}; the launcher must be that of the installed "
        "Open MPI (mpirun, or srun --mpi=pmix)",
        launch.launcher, launch.size, world.size());
  }
  if (num_ranks != world.size()) {
    throw UserError("{} does not say how many ranks it starts; give --ranks {}", launch.launcher,
                    world.size());
  }
}

}  // namespace

std::optional<Launch> launched(int asked) {
  auto launch = launch_of([](const char* name) { return std::getenv(name); });
  if (launch && launch->size == 1) launch.reset();  // ranks may be threads of it
  if (launch && asked != 0 && launch->size != 0 && launch->size != asked) {
    throw UserError("--ranks {}: {} has started {} ranks; leave --ranks out", asked,
                    launch->launcher, launch->size);
  }
  return launch;
}

std::optional<Launch> settle_ranks(config::Recipe& recipe, int asked) {
  auto launch = launched(asked);
  config::settle_layout(recipe, launch && launch->size != 0 ? launch->size : asked);
  return launch;
}

RankOptions rank_options(const config::Recipe& recipe) {
  return {.num_ranks = narrow<int>(config::num_ranks(recipe)),
          .threads = narrow<int>(recipe.run.threads),
          .deadline_seconds = recipe.parallel.deadline_seconds};
}

void on_ranks(const RankOptions& ranks, const std::optional<Launch>& launch,
              FunctionRef<void(const RankPlace&)> body) {
  comm::RankOptions options{.deadline_seconds =
                                train::TimeoutPolicy(ranks.deadline_seconds).seconds()};
  options.unwind_seconds = std::min(options.unwind_seconds, options.deadline_seconds);
  options.tell = [](const Failure& failure) { tell(failure); };
  if (launch) {
    return comm::run_mpi_rank(
        [&](comm::Communicator& world) {
          // First: what other versions call, and in which order, is theirs.
          comm::require_same(world, "the program's version", kVersion);
          check_size(world, ranks.num_ranks, *launch);
          const auto device =
              device::make_device(device::cpu_target(threads_of_process(world, ranks.threads)));
          body({world, *device, true});
        },
        options);
  }
  const int count = ranks.num_ranks;
  const int threads = ranks.threads > 0 ? ranks.threads : available_cores();
  if (count == 1) {
    const auto device = device::make_device(device::cpu_target(threads));
    const auto world = comm::make_self_communicator(*device);
    return body({*world, *device, true});
  }
  std::vector<device::Target> targets;
  std::vector<int> shares;
  for (int rank = 0; rank < count; ++rank) {
    shares.push_back(share_of(threads, rank, count));
    targets.push_back(device::cpu_target(shares.back()));
    targets.back().ranks_here = count;
  }
  // A launcher like mpirun binds its processes; threads of this one are for us to place.
  const std::vector<int> cores = device::cores_in_order();
  const bool all = static_cast<int>(cores.size()) == available_cores();
  comm::run_ranks(
      count,
      [&](comm::Communicator& world) {
        if (all) device::keep_on_cores(device::cores_of_rank(cores, shares, world.rank()));
        const auto device = device::make_device(targets[static_cast<size_t>(world.rank())]);
        body({world, *device, world.rank() == 0});
      },
      options);
}

}  // namespace megalith::apps
