// SPDX-License-Identifier: Apache-2.0
// What trains beside the weight of a product: low-rank factors (low_rank/), learned vectors (ia3/)
// or a bottleneck adapter behind it (bottlenecks/). Layers run it and know no more of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/context.h"
#include "parameters/parameter_set.h"
#include "tensor/shard.h"

namespace megalith::layers {

class ProductFactors {
 public:
  virtual ~ProductFactors() = default;
  /// Of a row product: what it reads in place of x_TI, in `made`; or x_TI itself.
  virtual ConstView input(Context&, ConstView x_TI, device::Tensor&) const { return x_TI; }
  /// Whether it comes before the bias, which is then added behind forward; else behind the bias.
  virtual bool comes_before_bias() const { return false; }
  /// y = f(y, x), before an activation. x_TI: what the layer was given, of all tokens; y: of all
  /// tokens, or those that the rank has of a row product. Collective.
  virtual void forward(Context& context, const Batch& batch, ConstView x_TI, View y) const = 0;
  /// The gradient of the product's own output, in `made`; or dy_TO. z_TO is that output, of a row
  /// product with reads_output(), else absent. Parameter gradients that it computes on the way
  /// accumulate, so it is called once in a backward. Collective.
  virtual ConstView output_gradient(Context&, ConstView dy_TO, ConstView /*z_TO*/,
                                    device::Tensor&) const {
    return dy_TO;
  }
  /// Whether backward reads the product's own output, which is then recomputed: z_TO, of all
  /// tokens, with the bias unless comes_before_bias(). add_output_gradients() accumulates the
  /// gradients of parameters that need it, and may overwrite it. Collective.
  virtual bool reads_output() const { return false; }
  virtual void add_output_gradients(Context&, const Batch&, ConstView /*dy_TO*/, ConstView /*x_TI*/,
                                    View /*z_TO*/) const {}
  /// Parameter gradients accumulate, and dx, on entry the gradient of what the product read,
  /// becomes that of x. dz_TO is output_gradient()'s, x_TI what the layer was given, both of all
  /// tokens; dx: of all, or those that the rank has of a column product's. Collective.
  virtual void backward(Context& context, const Batch& batch, ConstView dz_TO, ConstView x_TI,
                        View dx) const = 0;
};

/// The product that it is beside.
struct FactoredProduct {
  const parameters::Parameter& weight;  // [O, I]
  bool is_row = false;                  // cut by columns, else by rows
  std::vector<ShardRun> by_shard = {};  // the local rows in the order of shards; empty: they lie so
};
/// "a.down.x" of "a.down.weight" and ".x".
inline std::string name_beside(std::string_view weight, std::string_view suffix) {
  constexpr std::string_view kWeight = ".weight";
  MEGA_CHECK(weight.ends_with(kWeight), "{} is no weight of a product", weight);
  return std::string(weight.substr(0, weight.size() - kWeight.size())) + std::string(suffix);
}
/// Declares its parameters; null: there is nothing beside this product.
using MakeFactors = std::function<std::shared_ptr<const ProductFactors>(
    parameters::ParameterSet& set, const FactoredProduct& product)>;

}  // namespace megalith::layers
