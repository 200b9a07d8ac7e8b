// SPDX-License-Identifier: Apache-2.0
#include "prompts/mlp_head.h"

#include <fmt/format.h>

#include <utility>

namespace megalith::prompts {

using kernels::Activation;

MlpHead::MlpHead(parameters::ParameterSet& set, const std::string& name,
                 std::span<const int64_t> widths, DType dtype) {
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string product = fmt::format("{}.{}", name, 2 * i);
    products_.emplace_back(set, Affine::Names{product + ".weight", product + ".bias"},
                           Shape{widths[i + 1], widths[i]}, widths[i], dtype);
  }
}

void MlpHead::forward(kernels::Exec& exec, ConstView x_PI, View y_PO, Saved& saved) const {
  ConstView x = x_PI;
  for (const Affine& product : std::span(products_).first(products_.size() - 1)) {
    const Shape shape{x.size(0), product.outputs()};
    const View u = saved.pre_activations.emplace_back(exec.workspace.tensor(x.dtype(), shape));
    const View y = saved.outputs.emplace_back(exec.workspace.tensor(x.dtype(), shape));
    product.forward(exec, x, y, Activation::relu, u);
    x = y;
  }
  if (!y_PO.absent()) products_.back().forward(exec, x, y_PO);
}

void MlpHead::backward(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI, const Saved& saved,
                       View dx_PI) const {
  device::Tensor passing;
  ConstView dy = dy_PO;
  for (size_t i = products_.size(); i-- > 0;) {
    const Affine& product = products_[i];
    const ConstView x = i == 0 ? x_PI : ConstView(saved.outputs[i - 1]);
    product.backward_weight(exec, dy, x);
    product.backward_bias(exec, dy);
    if (i == 0) return product.backward_input(exec, dy, dx_PI);
    device::Tensor dx = exec.workspace.tensor(x.dtype(), x.shape());
    product.backward_input(exec, dy, dx, Activation::relu, saved.pre_activations[i - 1]);
    passing = std::move(dx);
    dy = passing;
  }
}

}  // namespace megalith::prompts
