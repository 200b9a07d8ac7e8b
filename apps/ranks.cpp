// SPDX-License-Identifier: Apache-2.0
#include "apps/ranks.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "account/layout_plan.h"
#include "account/memory_fit.h"
#include "account/rank_kinds.h"
#include "account/traced_step.h"
#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/recipe_options.h"
#include "apps/sample_writer.h"
#include "apps/version.h"
#include "base/host.h"
#include "base/integer.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "config/layouts.h"
#include "device/memory_offer.h"
#include "device/placement.h"
#include "engine/from_recipe.h"
#include "models/decoder.h"
#include "train/deadline.h"
#include "train/product_choices.h"

namespace megalith::apps {
namespace {

/// Rows of the table of ranks; the rest is like them.
constexpr int kRows = 16;

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
int threads_of_process(comm::Communicator& world, const config::Recipe& recipe) {
  const std::string mine = cores_name();
  int before = 0, sharing = 0, rank = 0;
  for (const std::string& theirs : world.exchange(mine, "cores")) {
    if (theirs == mine) {
      ++sharing;
      before += rank < world.rank() ? 1 : 0;
    }
    ++rank;
  }
  return recipe.run.threads > 0 ? threads_of(recipe) : share_of(available_cores(), before, sharing);
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

void check_size(const comm::Communicator& world, const config::Recipe& recipe,
                const Launch& launch) {
  if (launch.size != 0 && launch.size != world.size()) {
    throw UserError(
        "{} started {} ranks, but MPI has connected {}; the launcher must be that of the installed "
        "Open MPI (mpirun, or srun --mpi=pmix)",
        launch.launcher, launch.size, world.size());
  }
  config::Recipe settled = recipe;
  config::settle_layout(settled, world.size());
  if (config::num_ranks(settled) != config::num_ranks(recipe))
    throw UserError("{} does not say how many ranks it starts; set parallel.* to {} of them",
                    launch.launcher, world.size());
}

}  // namespace

std::optional<Launch> settle_ranks(config::Recipe& recipe, int asked) {
  auto launch = launch_of([](const char* name) { return std::getenv(name); });
  if (launch && launch->size == 1) launch.reset();  // ranks may be threads of it
  if (launch && asked != 0 && launch->size != 0 && launch->size != asked) {
    throw UserError("--ranks {}: {} has started {} ranks; leave --ranks out", asked,
                    launch->launcher, launch->size);
  }
  config::settle_layout(recipe, launch && launch->size != 0 ? launch->size : asked);
  return launch;
}

void on_ranks(const config::Recipe& recipe, const std::optional<Launch>& launch,
              FunctionRef<void(const RankPlace&)> body) {
  comm::RankOptions options{.deadline_seconds =
                                train::Deadline(recipe.parallel.deadline_seconds).seconds()};
  options.unwind_seconds = std::min(options.unwind_seconds, options.deadline_seconds);
  options.tell = [](const Failure& failure) { tell(failure); };
  const auto numerics = recipe.numerics == config::Numerics::fast ? kernels::Numerics::fast
                                                                  : kernels::Numerics::exact;
  std::optional<train::ProductChoices> recorded;
  if (numerics == kernels::Numerics::fast && (!launch || launch->rank == 0))
    recorded = train::recorded_choices(recipe.run.out);
  if (launch) {
    return comm::run_mpi_rank(
        [&](comm::Communicator& world) {
          // First: what other versions call, and in which order, is theirs.
          comm::require_same(world, "the program's version", kVersion);
          check_size(world, recipe, *launch);
          device::Target target =
              cpu_target(threads_of_process(world, recipe), numerics, from_rank_0(world, recorded));
          const auto chosen = static_cast<int64_t>(target.library_products);
          for (const int64_t theirs : world.exchange_values(std::span(&chosen, 1), "products"))
            target.library_products &= static_cast<uint32_t>(theirs);
          const auto device = device::make_cpu_device(target);
          body({world, *device, true});
        },
        options);
  }
  const int ranks = narrow<int>(config::num_ranks(recipe)), threads = threads_of(recipe);
  if (ranks == 1) {
    const auto device = device::make_cpu_device(cpu_target(threads, numerics, recorded));
    const auto world = comm::make_self_communicator(*device);
    return body({*world, *device, true});
  }
  // Before the ranks begin: what is measured, is measured once.
  std::vector<device::Target> targets;
  std::vector<int> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    shares.push_back(share_of(threads, rank, ranks));
    targets.push_back(cpu_target(shares.back(), numerics, recorded));
  }
  uint32_t common = ~uint32_t{0};
  for (const device::Target& target : targets) common &= target.library_products;
  for (device::Target& target : targets) {
    target.library_products = common;
    target.ranks_here = ranks;
  }
  // A launcher like mpirun binds its processes; threads of this one are for us to place.
  const std::vector<int> cores = device::cores_in_order();
  const bool all = static_cast<int>(cores.size()) == available_cores();
  comm::run_ranks(
      ranks,
      [&](comm::Communicator& world) {
        if (all) device::keep_on_cores(device::cores_of_rank(cores, shares, world.rank()));
        const auto device = device::make_cpu_device(targets[static_cast<size_t>(world.rank())]);
        body({world, *device, world.rank() == 0});
      },
      options);
}

namespace {

/// Some ranks of a machine and what is there for them together.
struct MemoryShare {
  std::vector<int> ranks;
  int64_t processes = 0;
  device::MemoryOffer offer;
};

class MemoryJudge {
 public:
  MemoryJudge(const RankPlace& place, const config::Recipe& recipe,
              const text::Tokenizer* tokenizer)
      : place_(place), recipe_(recipe), tokenizer_(tokenizer) {}

  /// UserError when the plans of these ranks do not fit together.
  void judge(const MemoryShare& share) {
    const auto planned = [&](const config::Recipe& candidate) {
      const MemoryPlan& plan = this->plan(candidate);
      // Rank 0 writes text samples while all ranks hold what is theirs.
      int64_t bytes = share.ranks.front() == 0 ? plan.sample_bytes : 0;
      for (const int rank : share.ranks) bytes += plan.of_rank[static_cast<size_t>(rank)].total;
      return bytes;
    };
    account::check_memory(recipe_, planned, share.offer, share.processes);
  }

  /// The same of one process against its own limit of addresses, which is alike for all.
  void judge_addresses(device::MemoryOffer offer) {
    offer.machine_free = *offer.address_space_free;
    offer.group_free.reset();
    const auto largest = [&](const config::Recipe& candidate) {
      const MemoryPlan& plan = this->plan(candidate);
      const auto& most = std::ranges::max(plan.of_rank, {}, &account::MemoryByClass::total);
      return std::max(plan.of_rank[0].total + plan.sample_bytes, most.total);
    };
    account::check_memory(recipe_, largest, offer, 1);
  }

  /// Made once for each candidate: the recipe as it stands is judged by several limits.
  const MemoryPlan& plan(const config::Recipe& candidate) {
    const auto [known, is_new] = plans_.try_emplace(config::to_yaml(candidate));
    if (is_new) {
      const device::Target& target = place_.device.target();
      const engine::Settings settings =
          engine::settings_of(candidate, tokenizer_ != nullptr ? tokenizer_->vocab_size() : 0);
      known->second.of_rank =
          account::plan_memory(settings, target, account::beside_steps(candidate),
                               [&] { place_.world.sign_of_life(); });  // the other ranks wait
      known->second.sample_bytes = planned_sample_bytes(candidate, settings, tokenizer_, target);
    }
    return known->second;
  }

 private:
  const RankPlace& place_;
  const config::Recipe& recipe_;
  const text::Tokenizer* tokenizer_;
  std::map<std::string, MemoryPlan> plans_;  // by recipe
};

}  // namespace

std::optional<MemoryPlan> require_memory(const RankPlace& place, const config::Recipe& recipe,
                                         const text::Tokenizer* tokenizer) {
  const device::MemoryOffer offer = device::memory_offer();
  const std::string host = host_name();
  const std::string group = host + ":" + (offer.group_free ? offer.group_path : "");
  const auto hosts = place.world.exchange(host, "memory.host");
  const auto groups = place.world.exchange(group, "memory.group");
  const auto pids = place.world.exchange(std::to_string(::getpid()), "memory.process");
  const auto share_of_names = [&](std::span<const std::string> names) {
    MemoryShare share{account::judged_by(place.world.rank(), names), 0, offer};
    std::set<std::string> processes;
    for (const int rank : share.ranks) processes.insert(pids[static_cast<size_t>(rank)]);
    share.processes = std::ssize(processes);
    return share;
  };
  MemoryJudge judge(place, recipe, tokenizer);
  MemoryShare machine = share_of_names(hosts), own_group = share_of_names(groups);
  if (machine.processes > 1 && offer.address_space_free) {
    judge.judge_addresses(offer);
    machine.offer.address_space_free.reset();
  }
  // A launcher may give each process a control group of its own.
  if (machine.ranks != own_group.ranks) {
    machine.offer.group_free.reset();
    own_group.offer.machine_free = INT64_MAX;
    own_group.offer.address_space_free.reset();
    if (!own_group.ranks.empty() && offer.group_free) judge.judge(own_group);
  }
  if (!machine.ranks.empty()) judge.judge(machine);
  return place.world.rank() == 0 ? std::optional(judge.plan(recipe)) : std::nullopt;
}

void print_layout(const engine::Settings& s, const std::vector<account::MemoryByClass>& memories,
                  int threads) {
  const int ranks = s.layout.num_ranks();
  if (ranks == 1) return;
  std::string text = fmt::format(
      "layout     {} ranks: tensor {} x pipeline {} x data {}, about {} thread{} each\n"
      "           rank  tensor  stage  data  blocks      samples per step  planned memory\n",
      ranks, s.layout.tensor, s.layout.pipeline, s.layout.data, threads, threads == 1 ? "" : "s");
  for (int rank = 0; rank < std::min(ranks, kRows); ++rank) {
    const parallel::Coordinates at = parallel::coordinates_of(s.layout, rank);
    std::string blocks;
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage piece = account::piece_at(s, at.pipeline, chunk);
      blocks += fmt::format("{}{}{}-{}{}", chunk > 0 ? ", " : "", piece.has_embedding ? "e " : "",
                            piece.begin, piece.end - 1, piece.has_head ? " h" : "");
    }
    text += fmt::format("           {:>4}  {:>6}  {:>5}  {:>4}  {:<10}  {:>16}  {:>14}\n", rank,
                        at.tensor, at.pipeline, at.data, blocks, s.batch.full / s.layout.data,
                        account::bytes_text(memories[static_cast<size_t>(rank)].total));
  }
  if (ranks > kRows) text += fmt::format("           ... and {} more\n", ranks - kRows);
  std::fputs(text.c_str(), stderr);  // a full log must not keep a run from starting
}

}  // namespace megalith::apps
