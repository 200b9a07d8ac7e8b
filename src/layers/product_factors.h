// SPDX-License-Identifier: Apache-2.0
// What trains beside the weight of a product, as low-rank factors do (low_rank/): layers run it and
// know no more of it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "layers/context.h"
#include "parameters/parameter_set.h"
#include "tensor/shard.h"

namespace megalith::layers {

class ProductFactors {
 public:
  virtual ~ProductFactors() = default;
  /// y += f(x), behind the bias and before an activation. x_TI: what the product read, of all
  /// tokens; y: of all tokens, or those that the rank has of a row product. Collective.
  virtual void forward(Context& context, const Batch& batch, ConstView x_TI, View y) const = 0;
  /// Gradients of its parameters accumulate, and dx += f'(dy). dy_TO, x_TI: of all tokens; dx: of
  /// all, or those that the rank has of a column product's. Collective.
  virtual void backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI,
                        View dx) const = 0;
};

/// The product that it is beside.
struct FactoredProduct {
  const parameters::Parameter& weight;  // [O, I]
  bool is_row = false;                  // cut by columns, else by rows
  std::vector<ShardRun> by_shard = {};  // the local rows in the order of shards; empty: they lie so
};
/// Declares its parameters; null: there is nothing beside this product.
using MakeFactors = std::function<std::shared_ptr<const ProductFactors>(
    parameters::ParameterSet& set, const FactoredProduct& product)>;

}  // namespace megalith::layers
