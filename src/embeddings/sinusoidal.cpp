// SPDX-License-Identifier: Apache-2.0
#include "embeddings/sinusoidal.h"

#include <cmath>

#include "kernels/embedding/sinusoidal.h"
#include "kernels/reduction/column_sum.h"
#include "math/elementary_double.h"

namespace megalith::layers {

Sinusoidal::Sinusoidal(parameters::ParameterSet& set, const std::string& name, int64_t width,
                       const Partition& partition) {
  using parameters::Init;
  const Shape shape{1};
  parameters::Declaration scale{
      name + ".scale",
      shape,
      Shard::whole(shape),
      {.kind = Init::Kind::constant, .value = 1 / std::sqrt(static_cast<double>(width))}};
  scale.gradient_partials = partition.token_partials;
  scale.partials_over_tensor = partition.sequence;
  scale_ = &set.declare(scale);
  const double step = elementary::log(10000.0) * 2 / static_cast<double>(width);
  for (int64_t i = 0; i < width / 2; ++i)
    inverse_.push_back(static_cast<float>(elementary::exp(-step * static_cast<double>(i))));
}

device::Tensor Sinusoidal::frequencies(Context& context) const {
  device::Tensor inverse_P = context.workspace(DType::f32, Shape{std::ssize(inverse_)});
  context.device().wait(context.device().copy_to_device(inverse_P, inverse_.data()));
  return inverse_P;
}

void Sinusoidal::forward(Context& context, const Batch& batch, View y_TE) const {
  const device::Tensor inverse_P = frequencies(context);
  kernels::sinusoidal_forward(context.exec,
                              {batch.own.position_T, inverse_P, scale_->compute(), y_TE});
}

void Sinusoidal::backward(Context& context, const Batch& batch, ConstView dy_TE) const {
  if (!scale_->trainable()) return;
  const device::Tensor inverse_P = frequencies(context);
  const int64_t rows = dy_TE.size(0);
  const device::Tensor sums = context.workspace(context.accumulation, Shape{rows});
  kernels::sinusoidal_backward(context.exec, {dy_TE, batch.own.position_T, inverse_P, sums});
  const int partials = scale_->declaration().gradient_partials;
  kernels::column_sum(context.exec, {sums.view.reshape(Shape{rows, 1}),
                                     scale_->gradient_sum().reshape(Shape{partials, 1}),
                                     token_shards(batch, partials)});
}

}  // namespace megalith::layers
