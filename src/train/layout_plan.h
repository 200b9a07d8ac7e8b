// SPDX-License-Identifier: Apache-2.0
// The plan of a layout of any size without its ranks: one rank of each pipeline stage is traced
// (the ranks of a stage are alike). Memory is that of a full traced step; work and traffic grow by
// the same amount with every micro-batch, so they are traced for one and for two and continued; the
// timeline is the schedule in virtual time with the traced operations of each piece.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "account/plan.h"
#include "parallel/timeline.h"
#include "train/traced_step.h"

namespace megalith::train {

struct StagePlan {
  int rank = 0;  // the one that was traced: tensor and data coordinate 0
  int stage = 0;
  account::MemoryByClass memory;
  device::Work work;                          // of a step
  std::map<std::string, int64_t> wire_bytes;  // of a step, by kind of collective
  double idle_share = 0;                      // of the time of a step, waiting for other stages
};

struct LayoutPlan {
  std::vector<StagePlan> stages;
  parallel::Timeline timeline;  // of one data shard's micro-batches; "seconds" are operations
  double bubble = 0;            // idle over busy time of the busiest stage
  int micro_batches = 0;        // in the timeline
};

/// One step; the memory also of what is beside the steps.
LayoutPlan plan_layout(const Settings& settings, const device::Target& target,
                       const BesideSteps& beside);

}  // namespace megalith::train
