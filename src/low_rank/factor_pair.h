// SPDX-License-Identifier: Apache-2.0
// The two factors beside one product, as factors.h says.
#pragma once

#include <memory>
#include <vector>

#include "kernels/matmul/low_rank.h"
#include "low_rank/factor_columns.h"
#include "low_rank/factors.h"

namespace megalith::low_rank {

class FactorPair final : public layers::ProductFactors {
 public:
  /// Declares them. `dtype`: that of the masters.
  FactorPair(parameters::ParameterSet& set, const layers::FactoredProduct& product,
             const ProductRanks& ranks, const FactoredProducts& all, DType dtype);

  void forward(layers::Context& context, const layers::Batch& batch, ConstView x_TI,
               View y) const override;
  void backward(layers::Context& context, const layers::Batch& batch, ConstView dy_TO,
                ConstView x_TI, View dx) const override;

  ConstView first_RI() const { return a_->compute(); }
  /// s b of the rank's outputs, f32 [R, O] in workspace, with its zeros.
  device::Tensor scaled_second(layers::Context& context) const;

 private:
  bool drops(const layers::Context& context) const;
  kernels::Dropout dropout(const layers::Context& context, const layers::Batch& batch) const;
  /// Absent where nothing is dropped.
  device::Tensor drop(layers::Context& context, const layers::Batch& batch, ConstView x_TI) const;
  /// h, f32 [T, R] of all tokens. Collective of a row product.
  device::Tensor project(layers::Context& context, const layers::Batch& batch,
                         ConstView x_TI) const;
  /// f32 [T, R], of all tokens and outputs. Collective of a column product.
  device::Tensor gradient_of_h(layers::Context& context, ConstView dy_TO) const;
  /// [R, O] of packed; absent where that is the same.
  device::Tensor spread(layers::Context& context, ConstView packed_PO) const;
  /// db += h^T dy; h has been scaled.
  void add_second_gradient(layers::Context& context, ConstView h_TR, ConstView dy_TO) const;

  parameters::Parameter *a_ = nullptr, *b_ = nullptr;
  bool is_row_;
  float scale_, dropout_;
  int64_t channel_begin_ = 0;
  std::vector<ShardRun> by_shard_;
  /// Of b's columns here; empty: it is not packed. Blocks may have columns of no module among
  /// those of one, whose b stays zero; runs have none of them.
  std::vector<kernels::LowRankBlock> blocks_;
  std::vector<ColumnRun> runs_;
};

}  // namespace megalith::low_rank
