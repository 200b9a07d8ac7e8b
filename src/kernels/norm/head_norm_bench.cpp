// SPDX-License-Identifier: Apache-2.0
// Arguments: rows, heads, key/value heads, head size, partials, type (0 f32, 1 bf16).
#include "kernels/elementary/bench_support.h"
#include "kernels/norm/head_norm.h"
#include "kernels/norm/head_norm_cases.h"

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
  int64_t rows, heads, kv_heads, head_size, partials;
  DType dtype;
  device::Tensor gamma, rstd, dgamma;

  explicit Operands(const benchmark::State& state)
      : rows(state.range(0)),
        heads(state.range(1)),
        kv_heads(state.range(2)),
        head_size(state.range(3)),
        partials(state.range(4)),
        dtype(benching::dtype_argument(state, 5)),
        gamma(bench.tensor(DType::f32, Shape{head_size})),
        rstd(bench.tensor(DType::f32, Shape{rows, heads})),
        dgamma(bench.tensor(DType::f32, Shape{partials, head_size})) {}

  device::Tensor matrix() {
    return bench.tensor(dtype, Shape{rows, (heads + 2 * kv_heads) * head_size});
  }
  HeadsView heads_of(const device::Tensor& qkv) const {
    return queries(qkv.view, heads, kv_heads, head_size);
  }
  int64_t bytes() const { return rows * heads * head_size * bytes_of(dtype); }
};

void head_norm_forward_of(benchmark::State& state) {
  Operands o(state);
  const auto x = o.matrix(), y = o.matrix();
  const HeadNormForward forward = {
      .x_TND = o.heads_of(x), .gamma_D = o.gamma, .y_TND = o.heads_of(y), .rstd_TN = o.rstd};
  o.bench.run(state, 2 * o.bytes(), [&](Exec& exec) { head_norm_forward(exec, forward); });
}
BENCHMARK(head_norm_forward_of)->Apply(sizes);

void head_norm_backward_of(benchmark::State& state) {
  Operands o(state);
  const auto x = o.matrix(), dy = o.matrix();
  const HeadNormBackward backward = {.dy_TND = o.heads_of(dy),
                                     .x_TND = o.heads_of(x),
                                     .gamma_D = o.gamma,
                                     .rstd_TN = o.rstd,
                                     .dx_TND = o.heads_of(dy),
                                     .dgamma_PD = o.dgamma};
  o.bench.run(state, 3 * o.bytes(), [&](Exec& exec) { head_norm_backward(exec, backward); });
}
BENCHMARK(head_norm_backward_of)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
