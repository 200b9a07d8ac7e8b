// SPDX-License-Identifier: Apache-2.0
// Products with ReLUs between them, of the rows of virtual tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "prompts/affine.h"

namespace megalith::prompts {

class MlpHead {
 public:
  /// Declares `name`.0.weight [widths[1], widths[0]], `name`.0.bias, `name`.2.weight, ...: numbered
  /// as torch does, where a ReLU counts.
  MlpHead(parameters::ParameterSet& set, const std::string& name, std::span<const int64_t> widths,
          DType dtype);

  /// Of each product but the last: u, and ReLU(u).
  struct Saved {
    std::vector<device::Tensor> pre_activations, outputs;
  };
  /// Fills an empty `saved`. y is overwritten; absent: only what backward needs is made.
  void forward(kernels::Exec& exec, ConstView x_PI, View y_PO, Saved& saved) const;
  /// Weights' gradients accumulate; dx is overwritten.
  void backward(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI, const Saved& saved,
                View dx_PI) const;

 private:
  std::vector<Affine> products_;
};

}  // namespace megalith::prompts
