// SPDX-License-Identifier: Apache-2.0
// From what backward accumulated to what the optimizer reads, in the canonical order:
//   1. data shards: the tree over the ranks of the data axis, bucket by bucket while backward goes
//      on (gradient_buckets.h);
//   2. a tied table: first and last stage exchange their sides, which are added once;
//   3. partial rows of token shards: the tree over them, continued with sequence parallelism over
//      the tensor ranks that hold the rest.
// Then the global norm: squares are summed in f64 per canonical shard, then in declaration order of
// the whole model.
#pragma once

#include <string>
#include <unordered_map>

#include "kernels/exec.h"
#include "parallel/mesh.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// Steps 2 and 3 on gradient level 0, after step 1 (GradientBuckets::finish). Overwrites
/// parameter.gradient() with the step's gradient, in the owned elements; ready as of a later ticket
/// of the device. `tied` is this stage's tied table, or null. Collective over pipeline and tensor.
void combine_gradients(kernels::Exec& exec, const parallel::Mesh& mesh,
                       parameters::ParameterSet& set, parameters::Parameter* tied);

/// The place of each parameter's sums of squares in the order of the whole model.
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
  device::Tensor factor;  // [1], the masters' type: min(1, clip / norm) / loss scale, an f32 number
};
/// The norm of the whole model's gradient, and the factor that clips it (infinite `clip`: 1). What
/// accumulated is that gradient times `loss_scale`, f32 [1] on the device, a power of two (absent:
/// 1): the norm is without it, and the factor takes it away. The same on every rank; ready as of a
/// later ticket of the device. Collective over tensor and pipeline, and over data where state is
/// spread.
GradientNorm gradient_norm(kernels::Exec& exec, const parallel::Mesh& mesh,
                           const parameters::ParameterSet& set, const NormOrder& order, double clip,
                           ConstView loss_scale = {});

}  // namespace megalith::optim
