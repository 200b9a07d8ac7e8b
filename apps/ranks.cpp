// SPDX-License-Identifier: Apache-2.0
#include "apps/ranks.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/version.h"
#include "base/host.h"
#include "base/integer.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "config/layouts.h"
#include "device/placement.h"
#include "train/product_choices.h"
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

/// Rank 0's: the run's folder may be on its machine alone. Collective.
std::optional<train::ProductChoices> from_rank_0(comm::Communicator& world,
                                                 const std::optional<train::ProductChoices>& mine) {
  const std::string text =
      mine ? fmt::format("{}\n{}\n{}", mine->products, mine->isa, mine->library) : "";
  const std::string theirs = world.exchange(text, "products.recorded")[0];
  const size_t first = theirs.find('\n');
  if (first == std::string::npos) return std::nullopt;
  const size_t second = theirs.find('\n', first + 1);
  return train::ProductChoices{theirs.substr(first + 1, second - first - 1),
                               theirs.substr(second + 1),
                               static_cast<uint32_t>(std::stoul(theirs.substr(0, first)))};
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
          .numerics = recipe.numerics == config::Numerics::fast ? kernels::Numerics::fast
                                                                : kernels::Numerics::exact,
          .deadline_seconds = recipe.parallel.deadline_seconds,
          .run = recipe.run.out};
}

void on_ranks(const RankOptions& ranks, const std::optional<Launch>& launch,
              FunctionRef<void(const RankPlace&)> body) {
  comm::RankOptions options{.deadline_seconds =
                                train::TimeoutPolicy(ranks.deadline_seconds).seconds()};
  options.unwind_seconds = std::min(options.unwind_seconds, options.deadline_seconds);
  options.tell = [](const Failure& failure) { tell(failure); };
  const kernels::Numerics numerics = ranks.numerics;
  std::optional<train::ProductChoices> recorded;
  if (numerics == kernels::Numerics::fast && !ranks.run.empty() && (!launch || launch->rank == 0))
    recorded = train::recorded_choices(ranks.run);
  if (launch) {
    return comm::run_mpi_rank(
        [&](comm::Communicator& world) {
          // First: what other versions call, and in which order, is theirs.
          comm::require_same(world, "the program's version", kVersion);
          check_size(world, ranks.num_ranks, *launch);
          device::Target target = cpu_target(threads_of_process(world, ranks.threads), numerics,
                                             from_rank_0(world, recorded));
          const auto chosen = static_cast<int64_t>(target.library_products);
          for (const int64_t theirs : world.exchange_values(std::span(&chosen, 1), "products"))
            target.library_products &= static_cast<uint32_t>(theirs);
          const auto device = device::make_device(target);
          body({world, *device, true});
        },
        options);
  }
  const int count = ranks.num_ranks;
  const int threads = ranks.threads > 0 ? ranks.threads : available_cores();
  if (count == 1) {
    const auto device = device::make_device(cpu_target(threads, numerics, recorded));
    const auto world = comm::make_self_communicator(*device);
    return body({*world, *device, true});
  }
  // Before the ranks begin: what is measured, is measured once.
  std::vector<device::Target> targets;
  std::vector<int> shares;
  for (int rank = 0; rank < count; ++rank) {
    shares.push_back(share_of(threads, rank, count));
    targets.push_back(cpu_target(shares.back(), numerics, recorded));
  }
  uint32_t common = ~uint32_t{0};
  for (const device::Target& target : targets) common &= target.library_products;
  for (device::Target& target : targets) {
    target.library_products = common;
    target.ranks_here = count;
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
