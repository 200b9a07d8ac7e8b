// SPDX-License-Identifier: Apache-2.0
// Low-rank factors with magnitudes (DoRA, Liu et al. 2024): the rows of w + s b a give directions
// alone, and their lengths are trained apart.
//   z = round(x w^T), then as factors.h has it y' = round(z + h (s b))
//   y = round(y' g) + bias      g = m / n      m [O] trains      n = || w + s b a || by rows
// g is 1 for outputs of no module. In backward n counts as a constant (section 4.3), as in PEFT:
//   dy' = round(dy g)      dm += sum over tokens of dy round(y' / n)
// and the factors' gradients are those for dy'. y' is recomputed for dm: the product once more, of
// a row product with its sum over ranks. n is computed whenever it is needed (row_norms.h): once
// forward and twice backward, each at the cost of a product of R rows.
//
// m lies as the outputs do: of a row product it is whole on every rank, and so is its gradient.
#pragma once

#include <vector>

#include "low_rank/factor_pair.h"

namespace megalith::low_rank {

class ScaledFactors final : public layers::ProductFactors {
 public:
  /// Declares the factors and m, initialised to the expected norm of randomly drawn weights; see
  /// begin_magnitudes(). MEGA_CHECK: no dropout.
  ScaledFactors(parameters::ParameterSet& set, const layers::FactoredProduct& product,
                const ProductRanks& ranks, const FactoredProducts& all, DType dtype);

  bool comes_before_bias() const override { return true; }
  void forward(layers::Context& context, const layers::Batch& batch, ConstView x_TI,
               View y) const override;
  ConstView output_gradient(layers::Context& context, ConstView dy_TO, ConstView z_TO,
                            device::Tensor& made) const override;
  bool reads_output() const override { return m_->trainable(); }
  void add_output_gradients(layers::Context& context, const layers::Batch& batch, ConstView dy_TO,
                            ConstView x_TI, View z_TO) const override;
  void backward(layers::Context& context, const layers::Batch& batch, ConstView dz_TO,
                ConstView x_TI, View dx) const override;

 private:
  /// m / n of the rank's outputs. Collective of a row product.
  device::Tensor scale(layers::Context& context) const;
  /// numerator / n. Collective of a row product.
  device::Tensor over_norms(layers::Context& context, ConstView numerator_O) const;
  /// Sets the elements of the rank's part of a vector that belong to no module.
  void fill_others(layers::Context& context, View vector_O, double value) const;

  const parameters::Parameter& weight_;
  FactorPair factors_;
  parameters::Parameter* m_;
  bool is_row_;
  std::vector<ColumnRun> others_;  // outputs of no module
};

/// Sets all magnitudes to the norms of the weights' rows, which have been loaded, so that training
/// starts from the model: while b is zero, g is 1 to the bit. Collective over the tensor ranks;
/// ready on return.
void begin_magnitudes(kernels::Exec& exec, comm::Communicator& tensor,
                      parameters::ParameterSet& set);

}  // namespace megalith::low_rank
