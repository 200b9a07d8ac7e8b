// SPDX-License-Identifier: Apache-2.0
#include "layers/mlp.h"

#include "kernels/elementwise/activate.h"

namespace megalith::layers {

Mlp::Mlp(parameters::ParameterSet& set, const std::string& name, int64_t hidden, int64_t ffn,
         kernels::Activation activation, double init_std, double output_init_std,
         const Partition& partition)
    : up_(set, name + ".up", hidden, ffn, init_std, partition),
      down_(set, name + ".down", ffn, hidden, output_init_std, partition),
      activation_(activation) {}

void Mlp::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, MlpSaved* saved,
                  bool keep_activated) const {
  const Shape shape{batch.num_tokens, up_.local_outputs()};
  View pre_activation;
  device::Tensor dropped;
  View activated;
  if (saved != nullptr) {
    saved->pre_activation_TF = context.saved(context.activation, shape);
    pre_activation = saved->pre_activation_TF;
  }
  if (saved != nullptr && keep_activated) {
    saved->activated_TF = context.saved(context.activation, shape);
    activated = saved->activated_TF;
  } else {
    dropped = context.workspace(context.activation, shape);
    activated = dropped;
  }
  up_.forward(context, batch, x_TH, activated, activation_, pre_activation);
  context.inspect("activated", activated);
  down_.forward(context, batch, activated, y_TH);
  context.inspect("output", y_TH);
}

void Mlp::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                   const MlpSaved& saved, View dx_TH) const {
  const ConstView u_TF = saved.pre_activation_TF;
  const device::Tensor du = context.workspace(context.activation, u_TF.shape());
  {
    device::Tensor recomputed;
    ConstView activated = saved.activated_TF;
    if (activated.absent()) {
      recomputed = context.workspace(context.activation, u_TF.shape());
      kernels::activation_forward(context.exec, u_TF, recomputed, activation_);
      activated = recomputed;
    }
    down_.backward(context, batch, dy_TH, activated, du, activation_, u_TF);
  }
  context.inspect("activated_gradient", du);
  up_.backward(context, batch, du, x_TH, dx_TH);
}

}  // namespace megalith::layers
