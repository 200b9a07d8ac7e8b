// SPDX-License-Identifier: Apache-2.0
// The training data as a stream of steps: reads ahead on its own thread, hands out this data rank's
// micro-batches of each step.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "data/batch_source.h"
#include "data/prefetch.h"
#include "engine/settings.h"

namespace megalith::engine {

class DataLoader {
 public:
  /// Starts at sample `first_sample`. The source and `data_ranks`, of which this is one, must
  /// outlive it.
  DataLoader(const data::BatchSource& source, const Settings& settings,
             comm::Communicator& data_ranks, int64_t first_sample);

  struct Step {
    int64_t first_sample = 0;
    int64_t samples = 0;                         // of all ranks
    double global_weight = 0;                    // of all ranks
    std::vector<data::HostBatch> micro_batches;  // of this rank
  };
  /// Collective over the data ranks where weights depend on the tokens: each knows its own.
  Step next();
  /// Gives the memory back.
  void recycle(Step&& step);
  /// Seconds that next() stood waiting so far: the exposed cost of the data loader.
  double wait_seconds() const { return prefetcher_->wait_seconds(); }

 private:
  double weight_of_all(double own, int64_t samples);
  const data::BatchSource& source_;
  optim::BatchRamp ramp_;
  int64_t micro_batch_;
  comm::Communicator& data_ranks_;
  int64_t consumed_;
  std::unique_ptr<data::Prefetcher> prefetcher_;
};

}  // namespace megalith::engine
