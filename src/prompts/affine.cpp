// SPDX-License-Identifier: Apache-2.0
#include "prompts/affine.h"

#include <cmath>

#include "kernels/matmul/linear.h"
#include "kernels/reduction/column_sum.h"

namespace megalith::prompts {
namespace {

double deviation_within(int64_t fan) { return 1 / std::sqrt(3 * static_cast<double>(fan)); }

}  // namespace

const parameters::Parameter& declare(parameters::ParameterSet& set, const std::string& name,
                                     const Shape& shape, double deviation, DType dtype) {
  using parameters::Init;
  parameters::Declaration declaration{name, shape, Shard::whole(shape),
                                      Init{Init::Kind::normal, deviation}};
  declaration.format = plain_format(dtype);
  declaration.is_added = true;
  return set.declare(std::move(declaration));
}

Affine::Affine(parameters::ParameterSet& set, const Names& names, const Shape& weight, int64_t fan,
               DType dtype)
    : weight_(declare(set, names.weight, weight, deviation_within(fan), dtype)),
      bias_(declare(set, names.bias, Shape{weight[0]}, deviation_within(fan), dtype)) {}

void Affine::forward(kernels::Exec& exec, ConstView x_PI, View y_PO, kernels::Activation activation,
                     View pre_activation_PO) const {
  kernels::linear_forward(exec, {.x_TI = x_PI,
                                 .w_OI = weight_.compute(),
                                 .y_TO = y_PO,
                                 .bias_O = bias_.compute(),
                                 .activation = activation,
                                 .pre_activation_TO = pre_activation_PO});
}

void Affine::backward_input(kernels::Exec& exec, ConstView dy_PO, View dx_PI,
                            kernels::Activation activation, ConstView pre_activation_PI) const {
  kernels::linear_backward_input(exec, {.dy_TO = dy_PO,
                                        .w_OI = weight_.compute(),
                                        .dx_TI = dx_PI,
                                        .pre_activation_TI = pre_activation_PI,
                                        .activation = activation});
}

void Affine::backward_weight(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI) const {
  if (weight_.trainable())
    kernels::linear_backward_weight(exec, {dy_PO, x_PI, weight_.gradient_sum(), {}, {}});
}

void Affine::backward_bias(kernels::Exec& exec, ConstView dy_PO) const {
  if (!bias_.trainable()) return;
  kernels::column_sum(exec, {dy_PO, bias_.gradient_sum().reshape(Shape{1, outputs()}), {}});
}

}  // namespace megalith::prompts
