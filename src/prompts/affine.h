// SPDX-License-Identifier: Apache-2.0
// What an encoder of virtual tokens consists of: parameters that every rank with the table has
// whole and that train beside the model, and products with them. The rows are those of virtual
// tokens, P of them, whatever the batch.
#pragma once

#include <string>

#include "kernels/elementwise/activation.h"
#include "kernels/exec.h"
#include "parameters/parameter_set.h"

namespace megalith::prompts {

/// Its elements begin as normal draws of this deviation. `dtype`: that of the masters.
const parameters::Parameter& declare(parameters::ParameterSet& set, const std::string& name,
                                     const Shape& shape, double deviation, DType dtype);

/// y = x w^T + b, in f32 chains (kernels/matmul/linear.h).
class Affine {
 public:
  struct Names {
    std::string weight, bias;
  };
  /// Declares w, of shape [O, I], and b [O]. Both begin with the deviation of what torch draws
  /// uniformly within 1 / sqrt(fan).
  Affine(parameters::ParameterSet& set, const Names& names, const Shape& weight, int64_t fan,
         DType dtype);

  int64_t inputs() const { return weight_.shape()[1]; }
  int64_t outputs() const { return weight_.shape()[0]; }

  /// y = x w^T + b, or with an activation that of it, and itself in `pre_activation_PO`. Both are
  /// overwritten.
  void forward(kernels::Exec& exec, ConstView x_PI, View y_PO,
               kernels::Activation activation = kernels::Activation::none,
               View pre_activation_PO = {}) const;
  /// dx = dy w, times the slope of the activation that gave x. Overwrites.
  void backward_input(kernels::Exec& exec, ConstView dy_PO, View dx_PI,
                      kernels::Activation activation = kernels::Activation::none,
                      ConstView pre_activation_PI = {}) const;
  /// dw += dy^T x; db += the sum of dy's rows. Nothing of what is frozen.
  void backward_weight(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI) const;
  void backward_bias(kernels::Exec& exec, ConstView dy_PO) const;

 private:
  const parameters::Parameter &weight_, &bias_;
};

}  // namespace megalith::prompts
