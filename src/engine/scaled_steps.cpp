// SPDX-License-Identifier: Apache-2.0
// What a loss scale asks of a step: it divides what losses are divided by, the norm and the factor
// of clipping take it away again (optim/gradients.h), and it follows the gradients.
#include <cmath>

#include "engine/engine.h"
#include "kernels/reduction/norms.h"

namespace megalith::engine {

void Engine::begin_scaled_step() {
  if (loss_scaler_ != nullptr) step_scale_ = static_cast<double>(loss_scaler_->host_scale());
}

/// The norm is finite if and only if all gradients are: their squares cannot overflow in f64. It is
/// the same on every rank, and so is the decision. A loss that is not finite is not caused
/// by the scale.
void Engine::follow_gradients(ConstView norm, StepResult& result) {
  if (loss_scaler_ == nullptr) return;
  kernels::Exec& exec = model_.exec();
  const device::Tensor finite = exec.workspace.tensor(DType::i32, Shape{1});
  kernels::all_finite(exec, {.x = norm, .flag = finite});
  const bool may_shrink = loss_scaler_->can_shrink();
  loss_scaler_->update(exec, finite);
  result.loss_scale = step_scale_;
  if (device().is_trace()) return;
  loss_scaler_->read();
  result.overflowed = !result.applied && may_shrink && std::isfinite(result.loss);
}

}  // namespace megalith::engine
