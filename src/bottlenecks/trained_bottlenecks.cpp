// SPDX-License-Identifier: Apache-2.0
#include "bottlenecks/trained_bottlenecks.h"

#include <memory>
#include <utility>

#include "kernels/matmul/bottleneck.h"

namespace megalith::bottlenecks {
namespace {

using layers::Batch;
using layers::Context;
using parameters::Init;
using parameters::Parameter;

/// Standard deviation of the first matrix, as AdapterHub draws it (init_weights "bert").
constexpr double kDeviation = 0.02;

class TrainedBottleneck final : public layers::ProductFactors {
 public:
  TrainedBottleneck(parameters::ParameterSet& set, const std::string& weight, int64_t hidden,
                    int64_t size, DType dtype) {
    const auto names = parameters_behind(weight);
    const auto declare = [&](size_t which, const Shape& shape, const Init& init) {
      parameters::Declaration declaration{names.at(which), shape, Shard::whole(shape), init};
      declaration.format = plain_format(dtype);
      declaration.is_added = true;
      return &set.declare(std::move(declaration));
    };
    down_ = declare(0, Shape{size, hidden}, {Init::Kind::normal, kDeviation});
    down_bias_ = declare(1, Shape{size}, {});
    up_ = declare(2, Shape{hidden, size}, {});
    up_bias_ = declare(3, Shape{hidden}, {});
  }

  void forward(Context& context, const Batch&, ConstView, View y_TH) const override {
    kernels::bottleneck_forward(context.exec, adapter(), y_TH);
  }
  bool reads_output() const override { return true; }
  ConstView output_gradient(Context& context, ConstView dy_TH, ConstView z_TH,
                            device::Tensor& made) const override {
    MEGA_CHECK(!z_TH.absent(), "a bottleneck behind a column product");
    made = context.workspace(dy_TH.dtype(), dy_TH.shape());
    kernels::bottleneck_backward(context.exec, {.adapter = adapter(),
                                                .x_TH = z_TH,
                                                .dy_TH = dy_TH,
                                                .dx_TH = made,
                                                .down_gradient_RH = gradient(*down_),
                                                .down_bias_gradient_R = gradient(*down_bias_),
                                                .up_gradient_HR = gradient(*up_),
                                                .up_bias_gradient_H = gradient(*up_bias_)});
    return made;
  }
  void backward(Context&, const Batch&, ConstView, ConstView, View) const override {}

 private:
  kernels::Bottleneck adapter() const {
    return {down_->compute(), down_bias_->compute(), up_->compute(), up_bias_->compute()};
  }
  static View gradient(const Parameter& parameter) {
    return parameter.trainable() ? parameter.gradient_sum() : View();
  }
  const Parameter *down_, *down_bias_, *up_, *up_bias_;
};

}  // namespace

std::array<std::string, 4> parameters_behind(std::string_view weight) {
  return {layers::name_beside(weight, ".adapter_down"),
          layers::name_beside(weight, ".adapter_down_bias"),
          layers::name_beside(weight, ".adapter_up"),
          layers::name_beside(weight, ".adapter_up_bias")};
}

layers::MakeFactors bottlenecks_of(int64_t size, DType dtype) {
  return [size, dtype](parameters::ParameterSet& set, const layers::FactoredProduct& product)
             -> std::shared_ptr<const layers::ProductFactors> {
    if (!product.is_row) return nullptr;
    return std::make_shared<TrainedBottleneck>(set, product.weight.name(),
                                               product.weight.shape()[0], size, dtype);
  };
}

}  // namespace megalith::bottlenecks
