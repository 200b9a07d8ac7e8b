// SPDX-License-Identifier: Apache-2.0
// Arguments: rows, heads, key/value heads, head size, pairs, type (0 f32, 1 bf16), style (0 half, 1
// interleaved).
#include "kernels/elementary/bench_support.h"
#include "kernels/rotary/rotary.h"
#include "kernels/rotary/rotary_cases.h"

namespace megalith::kernels {
namespace {

using benching::Bench;

void angle_sizes(benchmark::internal::Benchmark* bench) {
  for (const RotaryCase& c : kRotaryBenchCases) bench->Args({c.rows, c.pairs});
}
void sizes(benchmark::internal::Benchmark* bench) {
  for (const RotaryCase& c : kRotaryBenchCases) {
    for (const int64_t dtype : {0, 1}) {
      for (const int64_t style : {0, 1})
        bench->Args({c.rows, c.num_heads, c.num_kv_heads, c.head_size, c.pairs, dtype, style});
    }
  }
}

void rotary_angles_of(benchmark::State& state) {
  Bench bench;
  const auto position = bench.tensor(DType::i32, Shape{state.range(0)}, 1000);
  const auto angles = bench.tensor(DType::f32, Shape{state.range(0), 2 * state.range(1)});
  RotaryFrequencies frequencies{.pairs = state.range(1)};
  frequencies.inverse.fill(0.5f);
  bench.run(state, angles.view.bytes(), [&](Exec& exec) {
    rotary_angles(exec, {position, frequencies, angles});
  });
}
BENCHMARK(rotary_angles_of)->Apply(angle_sizes);

/// The query heads of a fused matrix.
void rotary_apply_of(benchmark::State& state) {
  Bench bench;
  const int64_t rows = state.range(0), heads = state.range(1), kv_heads = state.range(2),
                head_size = state.range(3), pairs = state.range(4);
  const auto qkv = bench.tensor(benching::dtype_argument(state, 5),
                                Shape{rows, (heads + 2 * kv_heads) * head_size});
  const auto angles = bench.tensor(DType::f32, Shape{rows, 2 * pairs});
  const RotaryApply apply = {queries(qkv.view, heads, kv_heads, head_size), angles,
                             state.range(6) == 0 ? RotaryStyle::half : RotaryStyle::interleaved};
  const int64_t bytes = 4 * rows * heads * pairs * bytes_of(qkv.view.dtype());
  bench.run(state, bytes + angles.view.bytes(), [&](Exec& exec) { rotary_apply(exec, apply); });
}
BENCHMARK(rotary_apply_of)->Apply(sizes);

}  // namespace
}  // namespace megalith::kernels
