// SPDX-License-Identifier: Apache-2.0
// A matrix product with weights, whole or cut over the tensor ranks (Shoeybi et al. 2019):
//   column: w [O/t, I]; y is the rank's columns, no traffic forward; dx is a sum over ranks
//   row:    w [O, I/t]; y is a sum over ranks; dx is the rank's columns, no traffic
// The contraction that crosses ranks is cut into the canonical shards on one rank too, and their
// sums combine in the same tree, so that every split gives the same bits (design note 0001).
#pragma once

#include <string>

#include "kernels/elementwise/activation.h"
#include "layers/context.h"
#include "parameters/parameter_set.h"

namespace megalith::layers {

/// How a model's parts are cut: fixed when layers are built.
struct Partition {
  int tensor_shards = 1;
  int tensor_size = 1;
  int tensor_rank = 0;
  int token_partials = 1;  // partial rows of gradients that sum over tokens
  Shard cut(const Shape& global, int dim) const {
    return Shard::part(global, dim, tensor_rank, tensor_size);
  }
};

class ColumnLinear {
 public:
  /// Declares `name`.weight [O, I] and `name`.bias [O].
  ColumnLinear(parameters::ParameterSet& set, const std::string& name, int64_t inputs,
               int64_t outputs, double init_std, const Partition& partition);

  /// y_TO = act(x w^T + b), this rank's columns [T, O/t]; overwrites y, and u with the
  /// pre-activation.
  void forward(Context& context, ConstView x_TI, View y_TO,
               kernels::Activation activation = kernels::Activation::none,
               View pre_activation_TO = {}) const;
  /// dx_TI overwritten (summed over the tensor ranks: collective); dw, db accumulated.
  void backward(Context& context, ConstView dy_TO, ConstView x_TI, View dx_TI) const;

  int64_t local_outputs() const { return weight_->local_shape()[0]; }

 private:
  parameters::Parameter* weight_;
  parameters::Parameter* bias_;
};

class RowLinear {
 public:
  RowLinear(parameters::ParameterSet& set, const std::string& name, int64_t inputs, int64_t outputs,
            double init_std, const Partition& partition);

  /// y_TO = x w^T + b, whole on every tensor rank (collective); x is the rank's columns [T, I/t].
  void forward(Context& context, ConstView x_TI, View y_TO) const;
  /// dx [T, I/t] overwritten: dy w, times activation'(pre_activation) when one is given; dw, db
  /// accumulated. Local.
  void backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x_TI, View dx_TI,
                kernels::Activation activation = kernels::Activation::none,
                ConstView pre_activation_TI = {}) const;

 private:
  parameters::Parameter* weight_;
  parameters::Parameter* bias_;
};

}  // namespace megalith::layers
