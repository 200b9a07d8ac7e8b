// SPDX-License-Identifier: Apache-2.0
// The two-layer perceptron of a block: up projection (column parallel) with its activation, down
// projection (row parallel). Gated (Shazeer 2020), the first product gives gate and up together:
// row 2j of its weight makes gate_j and row 2j + 1 up_j, so that any even cut holds whole pairs.
#pragma once

#include "layers/linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

struct MlpSaved {
  device::Tensor pre_activation_TU;  // u, [T, F] or gated [T, 2 F]
  device::Tensor activated_TF;       // absent when it is recomputed from u
  InputCodes activated, input;       // of the same and of x, where these are not kept
};

struct MlpConfig {
  MlpSpec spec;
  int64_t hidden = 0;
  double init_std = 0.02;
  double output_init_std = 0.02;
};

class Mlp {
 public:
  /// Declares `name`.up (gated: `name`.gate_up) and `name`.down.
  Mlp(parameters::ParameterSet& set, const std::string& name, const MlpConfig& config,
      const Partition& partition);

  /// y_TH before dropout and residual. `keep_activated` false drops what the activation made after
  /// use. `kept`: what of x is to be, of input_kept(). Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, MlpSaved* saved,
               bool keep_activated, InputKept kept = InputKept::numbers) const;
  /// dx_TH overwritten; gradients of weights accumulate. Collective over the tensor ranks.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                const MlpSaved& saved, View dx_TH) const;
  InputKept input_kept(const Context& context) const { return up_.input_kept(context); }

 private:
  /// The activation alone, gated or not.
  void activate(Context& context, ConstView u_TU, View y_TF) const;
  ColumnLinear up_;
  RowLinear down_;
  MlpSpec spec_;
};

}  // namespace megalith::layers
