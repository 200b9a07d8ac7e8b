// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows with its parameters: layer norm, or root-mean-square norm.
#pragma once

#include <string>

#include "layers/linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// What backward needs besides the input: row statistics. f32 [T] each.
struct NormSaved {
  device::Tensor mean_T;  // layer norms only
  device::Tensor rstd_T;
};

/// Its declaration: what multiplies a row begins at 1, the weight itself or the offset.
parameters::Declaration norm_weight(const std::string& name, int64_t width, const NormSpec& spec);

/// Where backward reads and writes gradients.
struct NormGradients {
  ConstView dy_TH;
  ConstView residual_TH = {};  // optional: added to dx
  View dx_TH;                  // overwritten; may be either
};

class Norm {
 public:
  /// Declares `name`.weight and, with a bias, `name`.bias [H].
  Norm(parameters::ParameterSet& set, const std::string& name, int64_t hidden, const NormSpec& spec,
       const Partition& partition);

  /// Overwrites y; fills `saved` unless null (inference).
  void forward(Context& context, ConstView x_TH, View y_TH, NormSaved* saved) const;
  /// y again from x and the saved statistics' source: the same bits as forward's.
  void recompute(Context& context, ConstView x_TH, View y_TH) const;
  /// dx = norm'(dy) + residual; parameter gradients accumulate.
  void backward(Context& context, const Batch& batch, const NormGradients& gradients,
                ConstView x_TH, const NormSaved& saved) const;

 private:
  parameters::Parameter* weight_;
  parameters::Parameter* bias_ = nullptr;
  NormKind kind_;
  float eps_;
  float offset_;
};

}  // namespace megalith::layers
