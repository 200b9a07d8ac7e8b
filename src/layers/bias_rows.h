// SPDX-License-Identifier: Apache-2.0
// Where the bias of a product is added: in the product, or behind what scales its output (DoRA:
// ProductFactors::comes_before_bias, Adapter::Factors::scale_O).
#pragma once

#include "kernels/elementwise/pointwise.h"
#include "layers/adapter.h"
#include "layers/product_factors.h"

namespace megalith::layers {

inline bool comes_before_bias(const ProductFactors* factors) {
  return factors != nullptr && factors->comes_before_bias();
}

/// Calls body(first row, rows, their bias) for all rows, run by run; the bias is absent where it is
/// to be added later.
template <typename Body>
void for_each_bias(const Context& context, const Batch& batch, const parameters::Parameter& weight,
                   const ProductFactors* factors, ConstView bias_O, int64_t rows,
                   const Body& body) {
  if (comes_before_bias(factors)) return body(0, rows, ConstView{});
  if (factors != nullptr || bias_O.absent()) return body(0, rows, bias_O);
  for_each_bias_run(context, batch, weight, rows,
                    [&](int64_t begin, int64_t count, bool comes_before) {
                      body(begin, count, comes_before ? ConstView{} : bias_O);
                    });
}

/// y = f(y, x), then the bias if it comes behind.
inline void run_factors(Context& context, const Batch& batch, const ProductFactors& factors,
                        ConstView x_TI, ConstView bias_O, View y) {
  factors.forward(context, batch, x_TI, y);
  if (factors.comes_before_bias() && !bias_O.absent())
    kernels::add(context.exec, y, bias_O.repeated(y.size(0)), y);
}

/// y = sum + b, rounded once.
inline void store_with_bias(Context& context, ConstView sum, ConstView bias_O, View y) {
  if (bias_O.absent()) return kernels::cast(context.exec, sum, y);
  kernels::add(context.exec, sum, bias_O.repeated(y.size(0)), y);
}

}  // namespace megalith::layers
