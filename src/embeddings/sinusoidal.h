// SPDX-License-Identifier: Apache-2.0
// Positions as sines and cosines of fixed frequencies (Vaswani et al. 2017) times a learned scale
// (Hua et al. 2022): pair i of E columns turns with 10000^(-2 i / E).
#pragma once

#include <string>
#include <vector>

#include "layers/linear.h"

namespace megalith::layers {

class Sinusoidal {
 public:
  /// Declares `name`.scale [1], which begins at 1 / sqrt(width).
  Sinusoidal(parameters::ParameterSet& set, const std::string& name, int64_t width,
             const Partition& partition);

  /// Adds to y_TE [the rank's own tokens, width], of the activations' type. Local.
  void forward(Context& context, const Batch& batch, View y_TE) const;
  /// The scale's gradient accumulates, in partial rows where tokens are cut into shards; that of y
  /// passes as it is. Local.
  void backward(Context& context, const Batch& batch, ConstView dy_TE) const;

 private:
  device::Tensor frequencies(Context& context) const;
  parameters::Parameter* scale_;
  std::vector<float> inverse_;  // by pair
};

}  // namespace megalith::layers
