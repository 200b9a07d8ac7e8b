// SPDX-License-Identifier: Apache-2.0
// The two-layer perceptron of a block: up projection (column parallel) with a fused activation,
// down projection (row parallel).
#pragma once

#include "layers/linear.h"

namespace megalith::layers {

struct MlpSaved {
  device::Tensor pre_activation_TF;  // u
  device::Tensor activated_TF;       // act(u); absent when it is recomputed from u
};

class Mlp {
 public:
  Mlp(parameters::ParameterSet& set, const std::string& name, int64_t hidden, int64_t ffn,
      kernels::Activation activation, double init_std, double output_init_std,
      const Partition& partition);

  /// y_TH before dropout and residual. `keep_activated` false drops act(u) after use. Collective
  /// over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, MlpSaved* saved,
               bool keep_activated) const;
  /// dx_TH overwritten.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                const MlpSaved& saved, View dx_TH) const;

 private:
  ColumnLinear up_;
  RowLinear down_;
  kernels::Activation activation_;
};

}  // namespace megalith::layers
