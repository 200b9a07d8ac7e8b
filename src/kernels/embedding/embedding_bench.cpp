// SPDX-License-Identifier: Apache-2.0
// Arguments: tokens, vocabulary, columns. Ids are spread over the whole table.
#include "kernels/elementary/bench_support.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_cases.h"
#include "kernels/embedding/sinusoidal.h"
#include "math/random.h"

namespace megalith::kernels {
namespace {

using benching::Bench;

void sizes(benchmark::internal::Benchmark* bench) {
  for (const EmbeddingCase& c : kEmbeddingBenchCases) bench->Args({c.tokens, c.vocab, c.columns});
}
device::Tensor spread_ids(Bench& bench, int64_t tokens, int64_t vocab) {
  device::Tensor ids = bench.tensor(DType::i32, Shape{tokens}, 0);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto number = static_cast<uint64_t>(t);
    ids.view.as<int32_t>()[t] =
        static_cast<int32_t>(philox(1, number, 0)[0] % static_cast<uint64_t>(vocab));
  }
  return ids;
}

void lookup(benchmark::State& state) {
  Bench bench;
  const auto table = bench.tensor(DType::f32, Shape{state.range(1), state.range(2)});
  const auto y = bench.tensor(DType::f32, Shape{state.range(0), state.range(2)});
  const auto ids = spread_ids(bench, state.range(0), state.range(1));
  bench.run(state, 2 * y.view.bytes(), [&](Exec& exec) {
    embedding_lookup(exec, {ids, table, 0, y});
  });
}
BENCHMARK(lookup)->Apply(sizes);

void table_gradient(benchmark::State& state) {
  Bench bench;
  const auto dtable = bench.tensor(DType::f32, Shape{state.range(1), state.range(2)});
  const auto dy = bench.tensor(DType::f32, Shape{state.range(0), state.range(2)});
  const auto ids = spread_ids(bench, state.range(0), state.range(1));
  bench.run(state, 3 * dy.view.bytes(), [&](Exec& exec) {
    embedding_backward(exec, {dy, ids, 0, dtable});
  });
}
BENCHMARK(table_gradient)->Apply(sizes);

void sinusoidal(benchmark::State& state) {
  Bench bench;
  const auto y = bench.tensor(DType::f32, Shape{state.range(0), state.range(2)});
  const auto inverse = bench.tensor(DType::f32, Shape{state.range(2) / 2});
  const auto scale = bench.tensor(DType::f32, Shape{1});
  const auto positions = spread_ids(bench, state.range(0), 128);
  bench.run(state, 2 * y.view.bytes(), [&](Exec& exec) {
    sinusoidal_forward(exec, {positions, inverse, scale, y});
  });
}
BENCHMARK(sinusoidal)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
