// SPDX-License-Identifier: Apache-2.0
// The plan of a layout of any size without its ranks: one rank of each class (rank_classes.h) takes
// a composed step (composed_step.h). The snapshot lies beside it all along. The timeline is the
// schedule in virtual time with the traced operations of each model chunk.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "account/plan.h"
#include "account/traced_step.h"
#include "parallel/timeline.h"

namespace megalith::account {

/// Ranks with the same plan.
struct RankPlan {
  int rank = 0;  // the first of them
  int stage = 0;
  int alike = 0;  // how many they are
  account::MemoryByClass memory;
  device::Work work;                          // of a step
  std::map<std::string, int64_t> wire_bytes;  // of a step, by kind of collective
  double idle_share = 0;                      // of the time of a step, waiting for other stages
};

struct LayoutPlan {
  std::vector<RankPlan> classes;  // in the order of their first ranks
  std::vector<size_t> class_of;   // by rank
  parallel::Timeline timeline;    // of one data shard's micro-batches; "seconds" are operations
  double bubble = 0;              // idle over busy time of the busiest stage
  int micro_batches = 0;          // in the timeline
  const RankPlan& of(int rank) const { return classes[class_of[static_cast<size_t>(rank)]]; }
};

/// One step; the memory also of what is beside the steps.
LayoutPlan plan_layout(const engine::Settings& settings, const device::Target& target,
                       const BesideSteps& beside);

/// The memory alone, by rank. `at_work`, where given, is called between traces by this thread.
std::vector<account::MemoryByClass> plan_memory(const engine::Settings& settings,
                                                const device::Target& target,
                                                const BesideSteps& beside,
                                                const std::function<void()>& at_work = {});

}  // namespace megalith::account
