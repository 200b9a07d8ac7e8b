// SPDX-License-Identifier: Apache-2.0
#include "apps/memory_admission.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "account/layout_plan.h"
#include "account/memory_fit.h"
#include "account/traced_step.h"
#include "apps/sample_writer.h"
#include "base/host.h"
#include "device/available_memory.h"

namespace megalith::apps {
namespace {

/// Some ranks of a machine and what is there for them together.
struct MemoryShare {
  std::vector<int> ranks;
  int64_t processes = 0;
  device::AvailableMemory available;
};

class MemoryJudge {
 public:
  MemoryJudge(const RankPlace& place, const config::Recipe& recipe,
              const text::Tokenizer* tokenizer, const SettingsOf& settings_of)
      : place_(place), recipe_(recipe), tokenizer_(tokenizer), settings_of_(settings_of) {}

  /// UserError when the plans of these ranks do not fit together.
  void judge(const MemoryShare& share) {
    const auto planned = [&](const config::Recipe& candidate) {
      const MemoryPlan& plan = this->plan(candidate);
      int64_t bytes = 0;
      for (const int rank : share.ranks) bytes += plan[static_cast<size_t>(rank)].total;
      return bytes;
    };
    account::check_memory(recipe_, planned, share.available, share.processes);
  }

  /// The same of one process against its own limit of addresses, which is alike for all.
  void judge_addresses(device::AvailableMemory available) {
    available.machine_free = *available.address_space_free;
    available.group_free.reset();
    const auto largest = [&](const config::Recipe& candidate) {
      return std::ranges::max(plan(candidate), {}, &account::MemoryByClass::total).total;
    };
    account::check_memory(recipe_, largest, available, 1);
  }

  /// Made once for each candidate: the recipe as it stands is judged by several limits.
  const MemoryPlan& plan(const config::Recipe& candidate) {
    const auto [known, is_new] = plans_.try_emplace(config::to_yaml(candidate));
    if (is_new) {
      const device::Target& target = place_.device.target();
      const engine::Settings settings = settings_of_(candidate);
      known->second = account::plan_memory(
          settings, target, account::beside_steps(candidate, prompt_lengths(candidate, tokenizer_)),
          [&] { place_.world.heartbeat(); });  // the other ranks wait
    }
    return known->second;
  }

 private:
  const RankPlace& place_;
  const config::Recipe& recipe_;
  const text::Tokenizer* tokenizer_;
  const SettingsOf& settings_of_;
  std::map<std::string, MemoryPlan> plans_;  // by recipe
};

}  // namespace

std::optional<MemoryPlan> require_memory(const RankPlace& place, const config::Recipe& recipe,
                                         const text::Tokenizer* tokenizer,
                                         const SettingsOf& settings_of) {
  const device::AvailableMemory available = device::available_memory();
  const std::string host = host_name();
  const std::string group = host + ":" + (available.group_free ? available.group_path : "");
  const auto hosts = place.world.exchange(host, "memory.host");
  const auto groups = place.world.exchange(group, "memory.group");
  const auto pids = place.world.exchange(std::to_string(::getpid()), "memory.process");
  const auto share_of_names = [&](std::span<const std::string> names) {
    MemoryShare share{account::judged_by(place.world.rank(), names), 0, available};
    std::set<std::string> processes;
    for (const int rank : share.ranks) processes.insert(pids[static_cast<size_t>(rank)]);
    share.processes = std::ssize(processes);
    return share;
  };
  MemoryJudge judge(place, recipe, tokenizer, settings_of);
  MemoryShare machine = share_of_names(hosts), own_group = share_of_names(groups);
  if (machine.processes > 1 && available.address_space_free) {
    judge.judge_addresses(available);
    machine.available.address_space_free.reset();
  }
  // A launcher may give each process a control group of its own.
  if (machine.ranks != own_group.ranks) {
    machine.available.group_free.reset();
    own_group.available.machine_free = INT64_MAX;
    own_group.available.address_space_free.reset();
    if (!own_group.ranks.empty() && available.group_free) judge.judge(own_group);
  }
  if (!machine.ranks.empty()) judge.judge(machine);
  return place.world.rank() == 0 ? std::optional(judge.plan(recipe)) : std::nullopt;
}

}  // namespace megalith::apps
