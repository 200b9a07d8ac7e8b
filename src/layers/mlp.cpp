// SPDX-License-Identifier: Apache-2.0
#include "layers/mlp.h"

#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/gated.h"

namespace megalith::layers {

Mlp::Mlp(parameters::ParameterSet& set, const std::string& name, const MlpConfig& config,
         const Partition& partition)
    : up_(set, name + (config.spec.gated ? ".gate_up" : ".up"),
          {config.hidden, config.spec.up_width(), config.spec.bias, config.init_std}, partition),
      down_(set, name + ".down",
            {config.spec.ffn, config.hidden, config.spec.bias, config.output_init_std}, partition),
      spec_(config.spec) {}

void Mlp::activate(Context& context, ConstView u_TU, View y_TF) const {
  if (spec_.gated) {
    kernels::gated_forward(context.exec, {.u_TG = u_TU, .y_TF = y_TF, .kind = spec_.activation});
  } else {
    kernels::activation_forward(context.exec, u_TU, y_TF, spec_.activation);
  }
}

void Mlp::forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, MlpSaved* saved,
                  bool keep_activated, InputKept kept) const {
  const Shape wide{batch.num_tokens, up_.local_outputs()};
  const Shape narrow{batch.num_tokens, down_.local_inputs()};
  View pre_activation;
  device::Tensor dropped_u, dropped;
  View activated;
  if (saved != nullptr) {
    saved->pre_activation_TU = context.saved(context.activation, wide);
    pre_activation = saved->pre_activation_TU;
  } else if (spec_.gated) {
    dropped_u = context.workspace(context.activation, wide);
    pre_activation = dropped_u;
  }
  const InputKept kept_activated =
      saved != nullptr && keep_activated ? down_.input_kept(context) : InputKept::made_again;
  if (kept_activated == InputKept::numbers) {
    saved->activated_TF = context.saved(context.activation, narrow);
    activated = saved->activated_TF;
  } else {
    dropped = context.workspace(context.activation, narrow);
    activated = dropped;
  }
  InputCodes* const input = kept == InputKept::codes ? &saved->input : nullptr;
  if (spec_.gated) {
    up_.forward(context, batch, x_TH, pre_activation, kernels::Activation::none, {}, input);
    activate(context, pre_activation, activated);
  } else {
    up_.forward(context, batch, x_TH, activated, spec_.activation, pre_activation, input);
  }
  context.inspect("activated", activated);
  down_.forward(context, batch, activated, y_TH,
                kept_activated == InputKept::codes ? &saved->activated : nullptr);
  context.inspect("output", y_TH);
}

void Mlp::backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                   const MlpSaved& saved, View dx_TH) const {
  const ConstView u_TU = saved.pre_activation_TU;
  const device::Tensor du = context.workspace(context.activation, u_TU.shape());
  {
    const Shape narrow{batch.num_tokens, down_.local_inputs()};
    device::Tensor recomputed;
    ConstView activated = saved.activated_TF;
    const bool is_made_again = activated.absent() && saved.activated.absent();
    if (is_made_again || (activated.absent() && context.may_fall_back()))
      recomputed = context.workspace(context.activation, narrow);
    if (is_made_again) {
      activate(context, u_TU, recomputed);
      activated = recomputed;
    }
    if (spec_.gated) {
      const device::Tensor dactivated = context.workspace(context.activation, narrow);
      down_.backward(context, batch, dy_TH, activated, dactivated, {}, &saved.activated);
      kernels::gated_backward(
          context.exec, {.dy_TF = dactivated, .u_TG = u_TU, .du_TG = du, .kind = spec_.activation});
    } else {
      down_.backward(context, batch, dy_TH, activated, du, {spec_.activation, u_TU},
                     &saved.activated);
    }
  }
  context.inspect("activated_gradient", du);
  up_.backward(context, batch, du, x_TH, dx_TH, &saved.input);
}

}  // namespace megalith::layers
