// SPDX-License-Identifier: Apache-2.0
// The flat gradient vector of a rank, cut into buckets that are summed over the data ranks while
// backward still computes others (Li et al. 2020). Backward completes parameters from the last
// declared to the first, so buckets are cut from the end of the vector, and a bucket starts once
// the last backward of the step has passed its beginning. Where a rank sums several data shards,
// the additions that end its own tree (parallel/tree.h) come first, element by element the same.
//
// A bucket is a range of elements, whatever parameters they belong to. With state spread over the
// data ranks it is a group of ownership (parameters/ownership.h), and its parts go to their owners.
// At most two buckets have scratch at a time: before a third starts, the first is waited for and
// added.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "optim/sharding.h"
#include "parallel/canonical.h"
#include "parallel/tree.h"

namespace megalith::optim {

class GradientBuckets {
 public:
  using Addition = parallel::TreeAccumulator::Addition;
  /// For one step. `last`: the additions between levels after the rank's last data shard. All
  /// arguments must outlive this.
  GradientBuckets(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
                  std::span<const Addition> last);

  /// Says that the gradient sums of `parameters` are complete on this rank and stay untouched until
  /// finish(). The run must end where the one named before begins. Starts the buckets that this
  /// completes. Collective over the data ranks, which name the same runs.
  void complete(const parameters::ParameterRun& parameters);

  /// Call after all parameters have been named. Level 0 then holds the canonical tree over all data
  /// shards in the elements that this rank owns, and gradient sums refer to it. Collective.
  void finish();

 private:
  struct Bucket {
    int64_t begin, end;                   // elements
    parameters::ParameterRun parameters;  // of a group of ownership
  };
  bool to_owners() const { return set_.storage().owners > 1; }
  void cut();
  void start(const Bucket& bucket);
  void settle_oldest();
  void advance() const;

  kernels::Exec& exec_;
  comm::Communicator& data_;
  parameters::ParameterSet& set_;
  std::span<const Addition> last_;
  std::vector<Bucket> waiting_;  // in the order of elements: the last is the next
  size_t complete_from_;         // parameter
  // Under way, oldest first; the second halves have no scratch.
  std::deque<parallel::PendingAllReduce> first_halves_, second_halves_;
  std::deque<PendingToOwners> to_owners_;
};

}  // namespace megalith::optim
