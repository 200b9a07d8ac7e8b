// SPDX-License-Identifier: Apache-2.0
// Arguments: rows, columns, type (0 f32, 1 bf16), instruction set (0 AVX2, 1 the machine's best).
#include "kernels/elementary/bench_support.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_cases.h"

namespace megalith::kernels {
namespace {

using benching::Bench;

void sizes(benchmark::internal::Benchmark* bench) {
  for (const NormCase& c : kNormBenchCases) {
    for (const int64_t dtype : {0, 1}) {
      for (const int64_t best : {0, 1}) bench->Args({c.rows, c.columns, dtype, best});
    }
  }
}

void norm_forward(benchmark::State& state) {
  Bench bench(state.range(3) == 0 ? device::Isa::avx2 : device::detect_isa());
  const Shape shape = {state.range(0), state.range(1)};
  const auto x = bench.tensor(benching::dtype_argument(state, 2), shape);
  const auto y = bench.tensor(benching::dtype_argument(state, 2), shape);
  const auto gamma = bench.tensor(DType::f32, Shape{shape[1]}),
             beta = bench.tensor(DType::f32, Shape{shape[1]});
  const auto mean = bench.tensor(DType::f32, Shape{shape[0]}),
             rstd = bench.tensor(DType::f32, Shape{shape[0]});
  bench.run(state, 2 * x.view.bytes(), [&](Exec& exec) {
    layer_norm_forward(exec, {x, gamma, beta, y, mean, rstd});
  });
}
BENCHMARK(norm_forward)->Apply(sizes);

/// With the gradient of the residual stream and of the parameters: x, dy, residual read, dx
/// written.
void norm_backward(benchmark::State& state) {
  Bench bench(state.range(3) == 0 ? device::Isa::avx2 : device::detect_isa());
  const Shape shape = {state.range(0), state.range(1)};
  const DType dtype = benching::dtype_argument(state, 2);
  const auto x = bench.tensor(dtype, shape), dy = bench.tensor(dtype, shape),
             dx = bench.tensor(dtype, shape);
  const auto gamma = bench.tensor(DType::f32, Shape{shape[1]});
  const auto mean = bench.tensor(DType::f32, Shape{shape[0]}),
             rstd = bench.tensor(DType::f32, Shape{shape[0]});
  const auto dgamma = bench.tensor(DType::f32, Shape{1, shape[1]}),
             dbeta = bench.tensor(DType::f32, Shape{1, shape[1]});
  bench.run(state, 4 * x.view.bytes(), [&](Exec& exec) {
    layer_norm_backward(exec, {dy, x, gamma, mean, rstd, dx, dx, dgamma, dbeta});
  });
}
BENCHMARK(norm_backward)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
