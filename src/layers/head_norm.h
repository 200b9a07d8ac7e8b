// SPDX-License-Identifier: Apache-2.0
// The norm of each head of queries or keys with one weight for all heads (Dehghani et al. 2023).
#pragma once

#include <string>

#include "kernels/norm/head_norm.h"
#include "layers/linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// Statistics of every head of every token. f32 [T, N / t] each.
struct HeadNormSaved {
  device::Tensor mean_TN;  // layer norms only
  device::Tensor rstd_TN;
};

class HeadNorm {
 public:
  /// Declares `name`.weight [D]. Its gradient sums over heads: one partial row per canonical shard;
  /// where there are fewer heads, a head's goes to the first of its shards.
  HeadNorm(parameters::ParameterSet& set, const std::string& name, int64_t head_dim,
           const NormSpec& spec, const Partition& partition);

  /// y overwritten; may be x. Fills `saved` unless null.
  void forward(Context& context, kernels::ConstHeadsView x_TND, kernels::HeadsView y_TND,
               HeadNormSaved* saved) const;
  /// dy becomes the gradient of x in place; the weight's gradient accumulates, unless another rank
  /// `counts` the same heads.
  void backward(Context& context, kernels::HeadsView dy_TND, kernels::ConstHeadsView x_TND,
                const HeadNormSaved& saved, bool counts = true) const;

 private:
  parameters::Parameter* weight_;
  NormKind kind_;
  float eps_;
  float offset_;
};

}  // namespace megalith::layers
