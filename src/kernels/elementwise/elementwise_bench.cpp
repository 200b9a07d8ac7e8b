// SPDX-License-Identifier: Apache-2.0
// Arguments: rows, columns, type (0 f32, 1 bf16). `memory_copy` is the machine's own ceiling.
#include <cstring>

#include "kernels/elementary/bench_support.h"
#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/dropout.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/elementwise/gated.h"

namespace megalith::kernels {
namespace {

using benching::Bench;
using benching::dtype_argument;

void sizes(benchmark::internal::Benchmark* bench) {
  for (const ElementwiseCase& c : kElementwiseBenchCases) {
    for (const int64_t dtype : {0, 1}) bench->Args({c.rows, c.columns, dtype});
  }
}
Shape shape_of(const benchmark::State& state) { return {state.range(0), state.range(1)}; }

void memory_copy(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, 2 * x.view.bytes(), [&](Exec&) {
    std::memcpy(y.view.data(), x.view.data(), static_cast<size_t>(x.view.bytes()));
  });
}
BENCHMARK(memory_copy)->Apply(sizes);

void cast_to_f32(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(DType::f32, shape_of(state));
  bench.run(state, x.view.bytes() + y.view.bytes(), [&](Exec& exec) { cast(exec, x, y); });
}
BENCHMARK(cast_to_f32)->Apply(sizes);

void add_two(benchmark::State& state) {
  Bench bench;
  const auto a = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto b = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, 3 * a.view.bytes(), [&](Exec& exec) { add(exec, a, b, y); });
}
BENCHMARK(add_two)->Apply(sizes);

template <Activation kActivation>
void forward_of(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, 2 * x.view.bytes(),
            [&](Exec& exec) { activation_forward(exec, x, y, kActivation); });
}
BENCHMARK(forward_of<Activation::gelu_tanh>)->Apply(sizes);
BENCHMARK(forward_of<Activation::gelu_erf>)->Apply(sizes);
BENCHMARK(forward_of<Activation::gelu_quick>)->Apply(sizes);
BENCHMARK(forward_of<Activation::silu>)->Apply(sizes);
BENCHMARK(forward_of<Activation::relu>)->Apply(sizes);

template <Activation kActivation>
void backward_of(benchmark::State& state) {
  Bench bench;
  const auto dy = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto u = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto dx = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, 3 * u.view.bytes(),
            [&](Exec& exec) { activation_backward(exec, dy, u, dx, kActivation); });
}
BENCHMARK(backward_of<Activation::gelu_tanh>)->Apply(sizes);
BENCHMARK(backward_of<Activation::silu>)->Apply(sizes);

Shape pairs_of(const benchmark::State& state) { return {state.range(0), 2 * state.range(1)}; }

template <Activation kActivation>
void gated_forward_of(benchmark::State& state) {
  Bench bench;
  const auto u = bench.tensor(dtype_argument(state, 2), pairs_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, 3 * y.view.bytes(), [&](Exec& exec) {
    gated_forward(exec, {u, y, kActivation});
  });
}
BENCHMARK(gated_forward_of<Activation::silu>)->Apply(sizes);

template <Activation kActivation>
void gated_backward_of(benchmark::State& state) {
  Bench bench;
  const auto dy = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto u = bench.tensor(dtype_argument(state, 2), pairs_of(state));
  const auto du = bench.tensor(dtype_argument(state, 2), pairs_of(state));
  bench.run(state, 5 * dy.view.bytes(), [&](Exec& exec) {
    gated_backward(exec, {dy, u, du, kActivation});
  });
}
BENCHMARK(gated_backward_of<Activation::silu>)->Apply(sizes);

void residual_dropout(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto residual = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto sample = bench.tensor(DType::i64, Shape{state.range(0)}, 3);
  const auto position = bench.tensor(DType::i32, Shape{state.range(0)}, 4);
  const Dropout dropout = {.p = 0.1f, .key = 5, .sample_T = sample, .position_T = position};
  bench.run(state, 3 * x.view.bytes(), [&](Exec& exec) {
    residual_dropout_forward(exec, {x, residual, y, dropout});
  });
}
BENCHMARK(residual_dropout)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
