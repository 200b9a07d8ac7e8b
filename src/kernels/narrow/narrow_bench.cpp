// SPDX-License-Identifier: Apache-2.0
// Casts to and from 8 bits: bytes read and written per second of one thread. Arguments: rows,
// columns, type of the wide side (0: f32, 1: bf16). memory_copy of elementwise_bench.cpp is the
// ceiling.
#include "kernels/elementary/bench_support.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/narrow/convert.h"
#include "kernels/narrow/quantize.h"
#include "kernels/narrow/quantize_blocks.h"
#include "kernels/narrow/scaled_product.h"

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
Shape turned_shape_of(const benchmark::State& state) { return {state.range(1), state.range(0)}; }

/// Codes of 0.5 that are in memory.
device::Tensor codes(Bench& bench, DType dtype, const Shape& shape) {
  const auto numbers = bench.tensor(DType::f32, shape);
  auto tensor = bench.exec().device.arena(device::MemoryClass::activations).tensor(dtype, shape);
  convert(bench.exec(), numbers, tensor, Overflow::saturate);
  return tensor;
}

template <DType kTo>
void convert_to(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = codes(bench, kTo, shape_of(state));
  bench.run(state, x.view.bytes() + y.view.bytes(),
            [&](Exec& exec) { convert(exec, x, y, Overflow::saturate); });
}
BENCHMARK(convert_to<DType::f16>)->Apply(sizes);
BENCHMARK(convert_to<DType::f8_e4m3>)->Apply(sizes);
BENCHMARK(convert_to<DType::f8_e5m2>)->Apply(sizes);

template <DType kFrom>
void convert_from(benchmark::State& state) {
  Bench bench;
  const auto x = codes(bench, kFrom, shape_of(state));
  const auto y = bench.tensor(dtype_argument(state, 2), shape_of(state));
  bench.run(state, x.view.bytes() + y.view.bytes(),
            [&](Exec& exec) { convert(exec, x, y, Overflow::saturate); });
}
BENCHMARK(convert_from<DType::f16>)->Apply(sizes);
BENCHMARK(convert_from<DType::f8_e4m3>)->Apply(sizes);
BENCHMARK(convert_from<DType::f8_e5m2>)->Apply(sizes);

/// Codes and amax; kExtras of them: 1 with the transposed copy too, 2 with the counts too.
template <int kExtras>
void quantize_with_scale(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = codes(bench, DType::f8_e4m3, shape_of(state));
  const auto turned = codes(bench, DType::f8_e4m3, turned_shape_of(state));
  const auto scale = bench.tensor(DType::f32, {1}), amax = bench.tensor(DType::f32, {1}, 0);
  const auto counts = bench.tensor(DType::i64, {kQuantizeCounts}, 0);
  Quantize arguments = {.x = x, .y = y, .scale = scale, .amax = amax};
  if (kExtras == 1) arguments.transposed = turned;
  if (kExtras == 2) arguments.counts = counts;
  const int64_t written = (kExtras == 1 ? 2 : 1) * y.view.bytes();
  bench.run(state, x.view.bytes() + written, [&](Exec& exec) { quantize(exec, arguments); });
}
BENCHMARK(quantize_with_scale<0>)->Apply(sizes);
BENCHMARK(quantize_with_scale<1>)->Apply(sizes);
BENCHMARK(quantize_with_scale<2>)->Apply(sizes);

void find_amax(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto amax = bench.tensor(DType::f32, {1}, 0);
  bench.run(state, x.view.bytes(), [&](Exec& exec) { absolute_maximum(exec, x, amax); });
}
BENCHMARK(find_amax)->Apply(sizes);

template <int kRows, int kColumns, DType kScale>
void quantize_in_blocks(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = codes(bench, DType::f8_e4m3, shape_of(state));
  const auto scales = bench.exec()
                          .device.arena(device::MemoryClass::activations)
                          .tensor(kScale, block_scales_shape(shape_of(state), kRows, kColumns));
  bench.run(state, x.view.bytes() + y.view.bytes(), [&](Exec& exec) {
    quantize_blocks(exec, {x, y, scales, kRows, kColumns, {.power_of_two = true}});
  });
}
BENCHMARK(quantize_in_blocks<1, 128, DType::f32>)->Apply(sizes);
BENCHMARK(quantize_in_blocks<128, 128, DType::f32>)->Apply(sizes);
BENCHMARK(quantize_in_blocks<128, 1, DType::f32>)->Apply(sizes);
BENCHMARK(quantize_in_blocks<1, 32, DType::f8_e8m0>)->Apply(sizes);
BENCHMARK(quantize_in_blocks<32, 1, DType::f8_e8m0>)->Apply(sizes);

template <int kRows, int kColumns, DType kScale>
void round_in_blocks(benchmark::State& state) {
  Bench bench;
  const auto x = bench.tensor(dtype_argument(state, 2), shape_of(state));
  const auto y = bench.tensor(DType::bf16, shape_of(state), 0);
  bench.run(state, x.view.bytes() + y.view.bytes(), [&](Exec& exec) {
    round_blocks(exec, {x, y, DType::f8_e4m3, kScale, kRows, kColumns, {.power_of_two = true}});
  });
}
BENCHMARK(round_in_blocks<1, 128, DType::f32>)->Apply(sizes);
BENCHMARK(round_in_blocks<128, 128, DType::f32>)->Apply(sizes);
BENCHMARK(round_in_blocks<128, 1, DType::f32>)->Apply(sizes);
BENCHMARK(round_in_blocks<1, 32, DType::f8_e8m0>)->Apply(sizes);
BENCHMARK(round_in_blocks<32, 1, DType::f8_e8m0>)->Apply(sizes);

/// [512, 768] by [768, 768] codes; items are products.
template <Accumulate kHow>
void product_of_codes(benchmark::State& state) {
  constexpr int64_t kM = 512, kN = 768, kK = 768;
  Bench bench;
  const auto a = codes(bench, DType::f8_e4m3, {kM, kK}), b = codes(bench, DType::f8_e4m3, {kN, kK});
  const auto scale = bench.tensor(DType::f32, {1});
  const auto y = bench.tensor(DType::f32, {kM, kN});
  bench.run(state, a.view.bytes() + b.view.bytes() + y.view.bytes(), [&](Exec& exec) {
    scaled_product(exec, {a, b, scale, scale, y, kHow});
  });
  state.SetItemsProcessed(state.iterations() * kM * kN * kK);
}
BENCHMARK(product_of_codes<Accumulate::exact>);
BENCHMARK(product_of_codes<Accumulate::hopper>);
BENCHMARK(product_of_codes<Accumulate::hopper_promoted>);

}  // namespace
}  // namespace megalith::kernels
