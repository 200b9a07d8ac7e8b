// SPDX-License-Identifier: Apache-2.0
// Argument: whether a bf16 copy is written too.
#include "kernels/elementary/bench_support.h"
#include "kernels/optimizer/adamw.h"

namespace megalith::kernels {
namespace {

void adamw_step(benchmark::State& state) {
  benching::Bench bench;
  const Shape shape = {1 << 23};
  const auto w = bench.tensor(DType::f32, shape), m = bench.tensor(DType::f32, shape);
  const auto v = bench.tensor(DType::f32, shape), g = bench.tensor(DType::f32, shape);
  const auto copy = bench.tensor(DType::bf16, shape);
  AdamW a;
  a.w_N = w, a.m_N = m, a.v_N = v, a.g_N = g, a.lr = 1e-3, a.weight_decay = 0.1;
  if (state.range(0) != 0) a.compute_N = copy;
  const int64_t bytes = shape[0] * (28 + (state.range(0) != 0 ? 2 : 0));
  bench.run(state, bytes, [&](Exec& exec) { adamw(exec, a); });
}
BENCHMARK(adamw_step)->Arg(0)->Arg(1);

}  // namespace
}  // namespace megalith::kernels
