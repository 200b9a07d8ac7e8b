// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/bottleneck.h"

#include "base/check.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"

namespace megalith::kernels {
namespace {

constexpr Activation kActivation = Activation::silu;

device::Tensor scratch(Exec& exec, const Bottleneck& adapter, int64_t rows, int64_t columns) {
  return exec.workspace.tensor(adapter.down_RH.dtype(), Shape{rows, columns});
}

/// a, and u unless it is absent.
void down(Exec& exec, const Bottleneck& adapter, ConstView x_TH, View a_TR, View u_TR) {
  linear_forward(exec, {.x_TI = x_TH,
                        .w_OI = Weight(adapter.down_RH),
                        .y_TO = a_TR,
                        .bias_O = adapter.down_bias_R,
                        .activation = kActivation,
                        .pre_activation_TO = u_TR});
}

void sum_rows(Exec& exec, ConstView dy_TO, View sum_O) {
  if (sum_O.absent()) return;
  column_sum(exec, {dy_TO, sum_O.reshape(Shape{1, sum_O.num_elements()}), {}});
}

}  // namespace

void bottleneck_forward(Exec& exec, const Bottleneck& adapter, View y_TH) {
  MEGA_CHECK_EQ(adapter.down_RH.size(1), y_TH.size(1));
  const int64_t rows = y_TH.size(0);
  const device::Tensor a = scratch(exec, adapter, rows, adapter.down_RH.size(0));
  down(exec, adapter, y_TH, a, {});
  const device::Tensor more = scratch(exec, adapter, rows, y_TH.size(1));
  linear_forward(
      exec, {.x_TI = a, .w_OI = Weight(adapter.up_HR), .y_TO = more, .bias_O = adapter.up_bias_H});
  add(exec, y_TH, more, y_TH);
}

void bottleneck_backward(Exec& exec, const BottleneckBackward& b) {
  const Bottleneck& adapter = b.adapter;
  const int64_t rows = b.dy_TH.size(0), size = adapter.down_RH.size(0);
  const device::Tensor u = scratch(exec, adapter, rows, size),
                       du = scratch(exec, adapter, rows, size);
  {
    const device::Tensor a = scratch(exec, adapter, rows, size);
    down(exec, adapter, b.x_TH, a, u);
    if (!b.up_gradient_HR.absent())
      linear_backward_weight(exec, {b.dy_TH, a, b.up_gradient_HR, {}, {}});
  }
  sum_rows(exec, b.dy_TH, b.up_bias_gradient_H);
  linear_backward_input(exec, {.dy_TO = b.dy_TH,
                               .w_OI = Weight(adapter.up_HR),
                               .dx_TI = du,
                               .pre_activation_TI = u,
                               .activation = kActivation});
  if (!b.down_gradient_RH.absent())
    linear_backward_weight(exec, {du, b.x_TH, b.down_gradient_RH, {}, {}});
  sum_rows(exec, du, b.down_bias_gradient_R);
  const device::Tensor more = scratch(exec, adapter, rows, b.dy_TH.size(1));
  linear_backward_input(exec, {.dy_TO = du, .w_OI = Weight(adapter.down_RH), .dx_TI = more});
  add(exec, b.dy_TH, more, b.dx_TH);
}

}  // namespace megalith::kernels
