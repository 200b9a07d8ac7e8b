// SPDX-License-Identifier: Apache-2.0
// Everything a layer needs around it to run on one rank: device, context, batch, parameters with
// random values in all of them (biases and norms too, so that nothing hides behind a zero or a
// one). Values are a function of name and logical element: the same under every layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "engine/device_batch.h"
#include "layers/context.h"
#include "layers/linear.h"
#include "parameters/parameter_set.h"
#include "testing/gradient_check.h"
#include "testing/toy_model.h"

namespace megalith::testing {

/// The toy model with two ragged samples of 8 tokens, small enough for finite differences; f64 in
/// every representation, so that all kernels are the double-precision references.
engine::Settings tiny_f64_settings();

/// What a case runs on, which must outlive it: a cpu, alone, unless said otherwise.
struct LayerRank {
  device::Device* device = nullptr;
  comm::Communicator* tensor = nullptr;
  bool sequence = false;  // tokens between products are spread over the ranks
};

class LayerCase {
 public:
  /// Batch: samples [0, samples) of the toy data.
  explicit LayerCase(const engine::Settings& settings, int64_t samples = 2,
                     const LayerRank& rank = {});
  LayerCase(const LayerCase&) = delete;
  LayerCase& operator=(const LayerCase&) = delete;

  const engine::Settings& settings() const { return settings_; }
  device::Device& device() { return exec_.device; }
  comm::Communicator& ranks() { return *tensor_; }
  /// Which part of each sample's tokens the rank has between products.
  engine::DeviceBatch::TokenPart token_part() const;
  parameters::ParameterSet& parameters() { return set_; }
  layers::Partition partition() const;
  const layers::Batch& batch() const { return device_batch_->batch(); }
  int64_t tokens() const { return host_batch_.num_tokens(); }
  /// A new context on the one step key of this case, with the settings' dropout.
  layers::Context context();

  /// After the layers have declared: memory, random values, gradients zero.
  void place();
  void zero_gradients();
  /// Of the activations' type; `random` is a function of shape and name.
  device::Tensor tensor(const Shape& shape);
  device::Tensor random(const Shape& shape, const std::string& name);
  /// The rank's own rows of random(Shape{batch.num_tokens, columns}, name).
  device::Tensor random_rows(const layers::Batch& batch, int64_t columns, const std::string& name);

  /// Finite differences of `value` against the accumulated gradients of all that is trained.
  std::vector<std::string> parameter_faults(FunctionRef<double()> value);

 private:
  /// The sums of a parameter for layers that share it with an earlier one.
  void for_each_further_use(size_t parameter, FunctionRef<void(const View&)> body) const;
  engine::Settings settings_;
  std::unique_ptr<device::Device> own_device_;
  kernels::Exec exec_;
  std::unique_ptr<comm::Communicator> alone_;
  comm::Communicator* tensor_;
  bool sequence_;
  parameters::ParameterSet set_;
  data::HostBatch host_batch_;
  std::unique_ptr<engine::DeviceBatch> device_batch_;
};

/// Sum of a[i] b[i]; f64, host memory.
double dot(ConstView a, ConstView b);

/// A ColumnLinear or RowLinear that the case has placed: the gradients of its input and of all
/// parameters against finite differences.
template <class Linear>
std::vector<std::string> product_faults(LayerCase& c, const Linear& layer, int64_t inputs,
                                        int64_t outputs) {
  layers::Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), inputs}, "x"), dx = c.tensor(x.view.shape());
  const auto y = c.tensor(Shape{c.tokens(), outputs}), dy = c.random(y.view.shape(), "dy");
  layer.backward(context, c.batch(), dy, x, dx);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y);
    return dot(y, dy);
  };
  std::vector<std::string> faults = gradient_faults("x", x, dx, value);
  for (std::string& fault : c.parameter_faults(value)) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace megalith::testing
