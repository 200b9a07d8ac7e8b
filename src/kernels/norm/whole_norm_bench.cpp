// SPDX-License-Identifier: Apache-2.0
// Arguments: rows, heads, key/value heads, head size, partials, type (0 f32, 1 bf16).
#include "kernels/elementary/bench_support.h"
#include "kernels/norm/head_norm_cases.h"
#include "kernels/norm/whole_norm.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

using benching::Bench;

void sizes(benchmark::internal::Benchmark* bench) {
  for (const HeadNormCase& c : kHeadNormBenchCases) {
    for (const int64_t dtype : {0, 1})
      bench->Args({c.rows, c.num_heads, c.num_kv_heads, c.head_size, c.partials, dtype});
  }
}

/// The query heads of a fused matrix.
struct Operands {
  Bench bench;
  int64_t rows, heads, kv_heads, head_size;
  DType dtype;
  device::Tensor gamma, dgamma, parts, total;

  explicit Operands(const benchmark::State& state)
      : rows(state.range(0)),
        heads(state.range(1)),
        kv_heads(state.range(2)),
        head_size(state.range(3)),
        dtype(benching::dtype_argument(state, 5)),
        gamma(bench.tensor(DType::f32, Shape{heads, head_size})),
        dgamma(bench.tensor(DType::f32, Shape{heads, head_size})),
        parts(bench.tensor(DType::f32, Shape{state.range(4), rows})),
        total(bench.tensor(DType::f32, Shape{rows})) {}

  device::Tensor matrix() {
    return bench.tensor(dtype, Shape{rows, (heads + 2 * kv_heads) * head_size});
  }
  HeadsView heads_of(const device::Tensor& qkv) const {
    return queries(qkv.view, heads, kv_heads, head_size);
  }
  RowTotals totals() const { return {.squares_T = total, .width = heads * head_size}; }
  int64_t bytes() const { return rows * heads * head_size * bytes_of(dtype); }
};

/// Sums, their tree and y.
void whole_norm_forward_of(benchmark::State& state) {
  Operands o(state);
  const auto x = o.matrix(), y = o.matrix();
  o.bench.run(state, 3 * o.bytes(), [&](Exec& exec) {
    whole_norm_sums(exec, {.x_TND = o.heads_of(x), .sums_PT = o.parts, .squares = true});
    tree_sum(exec, {o.parts, o.total});
    whole_norm_forward(exec, {.x_TND = o.heads_of(x),
                              .gamma_ND = o.gamma,
                              .y_TND = o.heads_of(y),
                              .totals = o.totals()});
  });
}
BENCHMARK(whole_norm_forward_of)->Apply(sizes);

/// Sums, their tree, the weight's gradient and dx.
void whole_norm_backward_of(benchmark::State& state) {
  Operands o(state);
  const auto x = o.matrix(), dy = o.matrix(), dx = o.matrix();
  const auto product = o.bench.tensor(DType::f32, Shape{o.rows});
  o.bench.run(state, 7 * o.bytes(), [&](Exec& exec) {
    whole_norm_gradient_sums(exec, {.dy_TND = o.heads_of(dy),
                                    .x_TND = o.heads_of(x),
                                    .gamma_ND = o.gamma,
                                    .products_PT = o.parts,
                                    .totals = o.totals()});
    tree_sum(exec, {o.parts, product});
    whole_norm_weight_gradient(exec, {.dy_TND = o.heads_of(dy),
                                      .x_TND = o.heads_of(x),
                                      .dgamma_ND = o.dgamma,
                                      .totals = o.totals()});
    whole_norm_backward(exec, {.dy_TND = o.heads_of(dy),
                               .x_TND = o.heads_of(x),
                               .gamma_ND = o.gamma,
                               .product_T = product,
                               .dx_TND = o.heads_of(dx),
                               .totals = o.totals()});
  });
}
BENCHMARK(whole_norm_backward_of)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
