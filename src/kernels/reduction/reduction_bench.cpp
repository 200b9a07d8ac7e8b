// SPDX-License-Identifier: Apache-2.0
// Sums at the sizes of a training step: bytes read per second.
#include "kernels/elementary/bench_support.h"
#include "kernels/reduction/column_sum.h"
#include "kernels/reduction/norms.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

using benching::Bench;

void bias_gradient(benchmark::State& state) {
  Bench bench;
  const auto dy = bench.tensor(benching::dtype_argument(state, 1), Shape{4096, state.range(0)});
  const auto db = bench.tensor(DType::f32, Shape{1, state.range(0)});
  bench.run(state, dy.view.bytes(), [&](Exec& exec) { column_sum(exec, {dy, db}); });
}
BENCHMARK(bias_gradient)->Args({768, 0})->Args({768, 1})->Args({3072, 0})->Args({3072, 1});

void tree(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(DType::f32, Shape{state.range(0), 1 << 20});
  const auto y = bench.tensor(DType::f32, Shape{1 << 20});
  bench.run(state, x.view.bytes() + y.view.bytes(), [&](Exec& exec) { tree_sum(exec, {x, y}); });
}
BENCHMARK(tree)->Arg(2)->Arg(4)->Arg(8);

void squares(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(benching::dtype_argument(state, 0), Shape{1 << 24});
  const auto partials = bench.tensor(DType::f64, Shape{num_square_partials(1 << 24)});
  bench.run(state, x.view.bytes(), [&](Exec& exec) { sum_of_squares(exec, {x, partials}); });
}
BENCHMARK(squares)->Arg(0)->Arg(1);

void finite(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(benching::dtype_argument(state, 0), Shape{1 << 24});
  const auto flag = bench.tensor(DType::i32, Shape{1}, 0);
  bench.run(state, x.view.bytes(), [&](Exec& exec) { all_finite(exec, {x, flag}); });
}
BENCHMARK(finite)->Arg(0)->Arg(1);

}  // namespace
}  // namespace megalith::kernels
