// SPDX-License-Identifier: Apache-2.0
// A matrix product with weights that every tensor rank has whole: y = x w^T + b of the rank's own
// tokens. For products beside the blocks, of which a model has one or two: nothing travels forward,
// and with sequence parallelism backward gathers both rows for the gradient of the weights, which
// each rank then has alike.
#pragma once

#include <string>

#include "layers/linear.h"

namespace megalith::layers {

class WholeLinear {
 public:
  /// Declares `name`.weight [O, I] and, with a bias, `name`.bias [O]. `config.grouped` is not read.
  WholeLinear(parameters::ParameterSet& set, const std::string& name, const LinearConfig& config);

  /// Overwrites y, any rows. Local.
  void forward(Context& context, ConstView x_TI, View y_TO) const;
  /// dx overwritten; dw, db accumulated. dy, x and dx: the rank's own tokens. Collective over the
  /// tensor ranks when they are not all.
  void backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI,
                View dx_TI) const;

 private:
  parameters::Parameter* weight_;
  parameters::Parameter* bias_ = nullptr;
};

}  // namespace megalith::layers
