// SPDX-License-Identifier: Apache-2.0
// What the tests of whole_norm are given: the heads of head_norm's inputs, a weight for each of
// their elements, and both passes put together from their steps. For tests only.
#pragma once

#include <string>
#include <utility>

#include "kernels/norm/head_norm_inputs.h"
#include "kernels/norm/whole_norm.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {

struct WholeNormInputs {
  HeadNormInputs heads;
  TestTensor gamma;  // [N, D]

  WholeNormInputs(const HeadNormCase& size, std::pair<NormKind, float> formula,
                  const HeadStorage& types)
      : heads(size, formula, types),
        gamma(TestTensor(types.gamma, Shape{size.num_heads, size.head_size}).fill_normal(3)) {}

  int64_t width() const { return heads.c.num_heads * heads.c.head_size; }
  double factor(int64_t h, int64_t d) const {
    return static_cast<double>(heads.gamma_offset) + gamma.at(h, d);
  }
  auto heads_of(const ConstView& qkv) const { return heads.heads_of(qkv); }
  auto heads_of(const View& qkv) const { return heads.heads_of(qkv); }
  TestTensor row_of_sums() const { return {heads.statistics(), Shape{heads.c.rows}}; }
  TestTensor parts_of_sums(int64_t gap = 0) const {
    return {heads.statistics(), Shape{heads.c.partials, heads.c.rows}, gap};
  }
  RowTotals totals(const Outputs& saved) const {
    return {.sum_T = heads.is_layer() ? saved[2].view() : ConstView(),
            .squares_T = saved[1],
            .width = width(),
            .eps = 1e-6f};
  }

  /// y, sums of squares, sums.
  Outputs forward(Exec& exec) const {
    TestTensor y = heads.matrix(heads.storage.y).fill_constant(0), parts = parts_of_sums(2);
    TestTensor squares = row_of_sums(), sum = row_of_sums().fill_constant(0);
    const ConstHeadsView x = heads_of(heads.x.view());
    if (heads.is_layer()) {
      whole_norm_sums(exec, {.x_TND = x, .sums_PT = parts});
      tree_sum(exec, {parts, sum});
    }
    whole_norm_sums(exec, {.x_TND = x,
                           .sums_PT = parts,
                           .squares = true,
                           .sum_T = heads.is_layer() ? sum.view() : View(),
                           .width = width()});
    tree_sum(exec, {parts, squares});
    Outputs outputs = {y, squares, sum};
    whole_norm_forward(exec, {.x_TND = x,
                              .gamma_ND = gamma,
                              .y_TND = heads_of(outputs[0].view()),
                              .totals = totals(outputs),
                              .gamma_offset = heads.gamma_offset});
    return outputs;
  }
  /// dx and dgamma, whose chains continue from 0.5.
  Outputs backward(Exec& exec, const Outputs& saved, int64_t rows_per_call = 1 << 30) const {
    TestTensor dx = heads.matrix(heads.storage.y).fill_constant(0), sums = parts_of_sums(),
               products = parts_of_sums(1), sum = row_of_sums(), product = row_of_sums();
    TestTensor dgamma = TestTensor(heads.statistics(), gamma.shape()).fill_constant(0.5);
    const ConstHeadsView x = heads_of(heads.x.view()), dy = heads_of(heads.dy.view());
    const bool layer = heads.is_layer();
    whole_norm_gradient_sums(exec, {.dy_TND = dy,
                                    .x_TND = x,
                                    .gamma_ND = gamma,
                                    .sums_PT = layer ? sums.view() : View(),
                                    .products_PT = products,
                                    .totals = totals(saved),
                                    .gamma_offset = heads.gamma_offset});
    if (layer) tree_sum(exec, {sums, sum});
    tree_sum(exec, {products, product});
    for (int64_t t = 0; t < heads.c.rows; t += rows_per_call) {
      const int64_t n = std::min(rows_per_call, heads.c.rows - t);
      RowTotals part = totals(saved);
      if (layer) part.sum_T = part.sum_T.rows(t, n);
      part.squares_T = part.squares_T.rows(t, n);
      whole_norm_weight_gradient(
          exec,
          {.dy_TND = dy.rows(t, n), .x_TND = x.rows(t, n), .dgamma_ND = dgamma, .totals = part});
    }
    whole_norm_backward(exec, {.dy_TND = dy,
                               .x_TND = x,
                               .gamma_ND = gamma,
                               .sum_g_T = layer ? sum.view() : View(),
                               .product_T = product,
                               .dx_TND = heads_of(dx.view()),
                               .totals = totals(saved),
                               .gamma_offset = heads.gamma_offset});
    return {dx, dgamma};
  }
};

}  // namespace megalith::kernels
