// SPDX-License-Identifier: Apache-2.0
// A matrix product with weights, whole or cut over the tensor ranks (Shoeybi et al. 2019):
//   column: w [O/t, I]; y is the rank's columns, no traffic forward; dx is a sum over ranks
//   row:    w [O, I/t]; y is a sum over ranks; dx is the rank's columns, no traffic
// The contraction that crosses ranks is cut into the canonical shards on one rank too, and their
// sums combine in the same tree, so that every split gives the same bits (design note 0001).
//
// With sequence parallelism (Korthikanti et al. 2022) the side that is whole on every rank, x of a
// column and y of a row product, is parted by tokens: gathered on the way in, summed and scattered
// on the way out. The gathered x is not kept; backward gathers it again while it computes dx.
#pragma once

#include <string>
#include <vector>

#include "kernels/elementwise/activation.h"
#include "layers/context.h"
#include "layers/product.h"
#include "layers/product_factors.h"
#include "layers/virtual_tokens.h"
#include "parallel/grouped_rows.h"
#include "parallel/sequence_shard.h"
#include "parameters/parameter_set.h"

namespace megalith::layers {

/// How a model's parts are cut: fixed when layers are built.
struct Partition {
  int tensor_shards = 1;
  int tensor_size = 1;
  int tensor_rank = 0;
  int token_partials = 1;  // partial rows on this rank of gradients that sum over tokens
  bool sequence = false;   // the other tensor ranks hold the other partial rows
  /// What trains beside products; null: nothing. For as long as layers are built.
  const MakeFactors* factors = nullptr;
  /// Likewise what trains before texts.
  const VirtualTokens* virtual_tokens = nullptr;
  Shard cut(const Shape& global, int dim) const {
    return Shard::part(global, dim, tensor_rank, tensor_size);
  }
};

/// The scope, inside that of a product, in which records of its input being gathered again lie.
inline constexpr std::string_view kGatheredAgain = "gathered_again";

/// How own tokens lie among all of the batch.
inline parallel::SequenceShard sequence_shard(const Batch& batch) { return {batch.num_samples}; }

/// The declaration of "`name`.weight", which products alone read: it may be in blocks where nothing
/// is trained.
parameters::Declaration product_weights(const std::string& name, const Shape& shape,
                                        const Shard& shard, double init_std,
                                        int canonical_shards = 1, bool is_layer_product = false);

/// Sizes of the whole product and how it begins.
struct LinearConfig {
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool bias = true;
  double init_std = 0.02;
  parallel::GroupedRows grouped = {};  // `outputs` rows in all; none: as they come
};

class ColumnLinear {
 public:
  /// Declares `name`.weight [O, I] and, with a bias, `name`.bias [O].
  ColumnLinear(parameters::ParameterSet& set, const std::string& name, const LinearConfig& config,
               const Partition& partition);

  /// y_TO = act(x w^T + b), this rank's columns [T, O/t] of all tokens; overwrites y, and u with
  /// the pre-activation. x: the rank's own tokens. Collective when they are not all.
  void forward(Context& context, const Batch& batch, ConstView x, View y_TO,
               kernels::Activation activation = kernels::Activation::none,
               View pre_activation_TO = {}, InputCodes* keep = nullptr) const;
  /// dx, of the rank's own tokens, overwritten (summed over the tensor ranks: collective); dw, db
  /// accumulated. x may be absent where forward has kept its codes.
  void backward(Context& context, const Batch& batch, ConstView dy_TO, ConstView x, View dx,
                const InputCodes* kept = nullptr) const;
  InputKept input_kept(const Context& context) const { return context.input_kept(*weight_); }

  int64_t local_outputs() const { return weight_->local_shape()[0]; }

 private:
  void weight_gradients(Context& context, const Product& product, ConstView db_TO, ConstView x_TI,
                        const InputCodes* kept) const;
  void backward_beside(Context& context, const Batch& batch, ConstView dy_TO, ConstView dz_TO,
                       ConstView x_TI, View dx) const;
  parameters::Parameter* weight_;
  parameters::Parameter* bias_ = nullptr;
  std::shared_ptr<const ProductFactors> factors_;
  ProductCut cut_;
  /// The local rows in the order of the canonical shards; empty: they lie so.
  std::vector<ShardRun> by_shard_;
};

/// What made the input of a product: backward takes its gradient through that too.
struct ActivatedFrom {
  kernels::Activation activation = kernels::Activation::none;
  ConstView pre_activation_TI = {};
};

class RowLinear {
 public:
  RowLinear(parameters::ParameterSet& set, const std::string& name, const LinearConfig& config,
            const Partition& partition);

  /// y = x w^T + b of the rank's own tokens (collective); x is the rank's columns [T, I/t] of all,
  /// read as the product's factors (ProductFactors::input) or the rows' adapters make it.
  void forward(Context& context, const Batch& batch, ConstView x_TI, View y,
               InputCodes* keep = nullptr) const;
  /// dx [T, I/t] overwritten: dy w, times activation'(pre_activation) when one is given; dw, db
  /// accumulated. dy: the rank's own tokens. Collective when they are not all.
  void backward(Context& context, const Batch& batch, ConstView dy, ConstView x_TI, View dx_TI,
                const ActivatedFrom& from = {}, const InputCodes* kept = nullptr) const;
  InputKept input_kept(const Context& context) const { return context.input_kept(*weight_); }

  int64_t local_inputs() const { return weight_->local_shape()[1]; }

 private:
  /// Recomputes the product's own output, [T, O] of all tokens. Collective.
  device::Tensor output(Context& context, const Batch& batch, ConstView x_TI, DType dtype) const;
  parameters::Parameter* weight_;
  parameters::Parameter* bias_ = nullptr;
  std::shared_ptr<const ProductFactors> factors_;
  ProductCut cut_;
};

}  // namespace megalith::layers
