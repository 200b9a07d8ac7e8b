// SPDX-License-Identifier: Apache-2.0
// What a training step takes on a cluster: the times of its parts (passes.h) in the pipeline's
// schedule, run in virtual time (parallel/timeline.h), then what stands behind the last backward:
// sums of gradients that nothing hides, and the update.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "costs/passes.h"
#include "costs/traced_parts.h"
#include "parallel/timeline.h"

namespace megalith::costs {

/// Seconds of a step on the stage that is busiest; they sum to its whole time.
struct Breakdown {
  double compute = 0;    // forward and backward
  double recompute = 0;  // what is run again, with its transfers
  double wire = 0;       // between tensor ranks and stages, exposed
  double bubble = 0;     // waiting for other stages
  double gradients = 0;  // sums over data ranks, exposed
  double optimizer = 0;
  double total() const { return compute + recompute + wire + bubble + gradients + optimizer; }
};

struct StepTime {
  double seconds = 0;
  Breakdown parts;
  double model_flops = 0;  // of all ranks; see Passes
  double mfu = 0;          // of the peak of the widest type that products have
};

/// A stage: its chunks, and the elements of weights on a rank of it.
struct StageTimes {
  std::vector<Passes> chunks;
  double weights = 0;
  double busy(bool again = true) const;  // seconds of a micro-batch
};

/// Steps of one model on one cluster, under any layout; what layouts share is found once. Of one
/// thread at a time.
class StepTimes {
 public:
  /// Both must outlive this; `settings` may change in everything but the model, the length of
  /// samples and what is in 8 bits.
  StepTimes(const engine::Settings& settings, const clusters::Cluster& cluster);

  /// By the busiest stage and the ways to it and back: at most the simulated time, and equal to it
  /// for stages with equal work (but for interleaved schedules with few micro-batches).
  StepTime least(const engine::Settings& settings);
  /// By the schedule in virtual time, whose spans are given back where asked for.
  StepTime simulated(const engine::Settings& settings, parallel::Timeline* timeline = nullptr);

  std::vector<StageTimes> stages(const engine::Settings& settings);
  const clusters::Cluster& cluster() const { return cluster_; }

 private:
  using Key = std::array<int64_t, 8>;
  const Passes& layer(const engine::Settings& settings, int64_t layer, layers::Recompute mode);
  const Passes& end(const engine::Settings& settings, bool head);
  Key key_of(const engine::Settings& settings) const;
  bool is_traced() const { return !cluster_.device.kernels.empty(); }
  UpdateTime update(const engine::Settings& settings, int stage);
  StepTime finish(const engine::Settings& settings, const std::vector<StageTimes>& stages,
                  double pipeline_seconds);
  void add_update(const engine::Settings& settings, const std::vector<StageTimes>& stages,
                  Breakdown& parts);
  const clusters::Cluster& cluster_;
  std::vector<int64_t> kind_of_;  // by layer: the first that is equal
  std::map<Key, Passes> parts_;
  std::map<Key, UpdateTime> updates_;
};

/// Micro-batches of a canonical data shard.
int64_t micro_batches_of(const engine::Settings& settings);

/// What the times rest on, a line each: rates, links, overlaps, with where they come from.
std::vector<std::string> assumptions(const clusters::Cluster& cluster,
                                     const engine::Settings& settings);

}  // namespace megalith::costs
