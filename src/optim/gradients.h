// SPDX-License-Identifier: Apache-2.0
// From what backward accumulated to what the optimizer reads, in the canonical order:
//   1. over data shards: tree over the ranks of the data axis, bucket by bucket while backward goes
//      on (gradient_buckets.h)
//   2. a tied table: the two sides of first and last stage are exchanged and added once
//   3. partial rows of token shards: tree over them, and with sequence parallelism on over the
//      tensor ranks that hold the rest
// and the global norm: squares summed in f64 per canonical shard, then in declaration order of the
// whole model.
#pragma once

#include <string>
#include <unordered_map>

#include "kernels/exec.h"
#include "parallel/mesh.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// Steps 2 and 3 on gradient level 0, after the first (GradientBuckets::finish); afterwards
/// parameter.gradient() holds the step's gradient, in its owned elements.
/// `tied` is this stage's tied table, null if it has none. Collective over pipeline and tensor.
void combine_gradients(kernels::Exec& exec, const parallel::Mesh& mesh,
                       parameters::ParameterSet& set, parameters::Parameter* tied);

/// Where each parameter's sums of squares stand among those of the whole model.
class NormOrder {
 public:
  /// `whole`: the declarations of the whole model on one rank.
  explicit NormOrder(const parameters::ParameterSet& whole);
  int64_t size() const { return size_; }
  int64_t first_of(const std::string& name) const { return first_.at(name); }

 private:
  std::unordered_map<std::string, int64_t> first_;
  int64_t size_ = 0;
};

/// Scalars on the device.
struct GradientNorm {
  device::Tensor norm;    // f64 [1]
  device::Tensor factor;  // [1], the masters' type: min(1, clip / norm), an f32 number
};
/// `clip` infinity: factor 1. Collective over tensor and pipeline; the same on every rank.
GradientNorm gradient_norm(kernels::Exec& exec, const parallel::Mesh& mesh,
                           const parameters::ParameterSet& set, const parameters::Parameter* tied,
                           const NormOrder& order, double clip);

}  // namespace megalith::optim
