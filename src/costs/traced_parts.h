// SPDX-License-Identifier: Apache-2.0
// What the parts of a step take on a machine with measured kernels: the same parts as of passes.h,
// but from records of this program's own code run on the trace kind, so nothing is left out and
// nothing is assumed of how a layer is computed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "costs/kernel_time.h"
#include "costs/passes.h"
#include "models/decoder.h"

namespace megalith::costs {

/// What a rank of a stage does once a step beside the passes of micro-batches: sums of gradients,
/// norm, update, casts.
struct UpdateTime {
  double kernels = 0;
  double wire = 0;
};

class TracedParts {
 public:
  /// Of these settings' layout, micro-batch and types. Both must outlive this.
  TracedParts(const engine::Settings& settings, const clusters::Cluster& cluster);

  Passes layer(int64_t layer, layers::Recompute mode) const;
  Passes embedding() const;
  Passes head() const;
  UpdateTime update(int stage) const;

  /// Kernels of a step that the cluster file has no rates of.
  std::set<std::string> not_measured() const;

 private:
  Passes part(const models::Stage& stage, layers::Recompute mode) const;
  Passes counted(Passes passes, const Passes& counts) const;
  const engine::Settings& settings_;
  clusters::Cluster counting_;  // any times: operations and weights are counted with it
  PartTimes counts_;
  KernelTime time_;
  Group tensor_, all_;
};

}  // namespace megalith::costs
