// SPDX-License-Identifier: Apache-2.0
// Rates of attention in GFLOP/s of exact pairs, one thread by default; decode in GB/s of cache
// read. Compare with the GEMM ceiling of the same thread count.
#include <benchmark/benchmark.h>

#include <numeric>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/elementary/bench_roofline.h"

namespace megalith::kernels {
namespace {

constexpr double kGiga = 1e9;

AttentionCase bench_case(const benchmark::State& state) {
  const int64_t size = state.range(3), kind = state.range(1) / 2 * 2;
  AttentionCase shape{"",
                      {static_cast<int32_t>(state.range(0))},
                      768 / size,
                      state.range(2),
                      size,
                      true,
                      kind == 2 ? 0.1f : 0.0f,
                      kind == 4 ? 255 : -1};
  if (kind == 6) shape.buckets = {32, 128, false};
  return shape;
}
DType bench_dtype(const benchmark::State& state) {
  return state.range(1) % 2 == 1 ? DType::bf16 : DType::f32;
}

void report(benchmark::State& state, const benching::RooflineWatch& watch,
            const AttentionData& data, double per_pair) {
  const double flops = per_pair * static_cast<double>(data.shape.num_heads) *
                       static_cast<double>(data.shape.head_size) *
                       static_cast<double>(attention_pairs(data.sequences()));
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops / kGiga, benchmark::Counter::kIsIterationInvariantRate);
  watch.report(state, flops, 0);
}

void forward(benchmark::State& state) {
  AttentionData data(bench_case(state), bench_dtype(state));
  const auto device = device::make_cpu_device(1);
  const benching::RooflineWatch watch;
  for (auto _ : state) data.forward(*device);
  report(state, watch, data, 4);
}
void backward(benchmark::State& state) {
  AttentionData data(bench_case(state), bench_dtype(state));
  const auto device = device::make_cpu_device(1);
  data.forward(*device);
  const benching::RooflineWatch watch;
  for (auto _ : state) data.backward(*device);
  report(state, watch, data, 10);
}

void decode(benchmark::State& state) {
  const int64_t length = state.range(0), num_kv_heads = state.range(2), size = state.range(3);
  const KvCacheShape shape{bench_dtype(state), num_kv_heads, size, kv_cache_blocks(length)};
  testing::TestTensor cache(shape.dtype, Shape{kv_cache_elements(shape)});
  testing::TestTensor table(DType::i32, Shape{1, shape.num_blocks}), q(shape.dtype, Shape{1, 768}),
      y(shape.dtype, Shape{1, 768});
  cache.fill_normal(1);
  q.fill_normal(2);
  table.fill([](int64_t i) { return static_cast<double>(i); });
  const auto device = device::make_cpu_device(1);
  const std::vector<int32_t> cu{0, 1}, past{static_cast<int32_t>(length - 1)};
  Exec exec(*device);
  const benching::RooflineWatch watch;
  for (auto _ : state) {
    attention_cached(exec, {.shape = shape,
                            .cache = cache.view(),
                            .sequences = {.cu_seqlens = cu,
                                          .past = past,
                                          .cu_seqlens_device = {},
                                          .past_device = {},
                                          .block_table_SM = table.view()},
                            .scale = 0.125f,
                            .q_TND = heads(ConstView(q.view()), 768 / size, size),
                            .y_TND = heads(y.view(), 768 / size, size)});
  }
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(kv_cache_bytes(shape)) / kGiga,
                                              benchmark::Counter::kIsIterationInvariantRate);
  watch.report(state, 0, static_cast<double>(kv_cache_bytes(shape)));
}

// Arguments: sequence length; 0 f32, 1 bf16, 2 f32 with dropout, 4 f32 and 5 bf16 with a window of
// 256 keys, 6 f32 and 7 bf16 with T5's biases; key/value heads; size of a head, of which queries
// have 768 / size.
void training_sizes(benchmark::internal::Benchmark* b) {
  for (const int64_t length : {128, 512, 1024, 4096}) b->Args({length, 0, 12, 64});
  b->Args({1024, 2, 12, 64})->Args({1024, 0, 2, 64});
  for (const int64_t length : {128, 256, 1024, 4096}) b->Args({length, 1, 12, 64});
  for (const int64_t length : {256, 1024, 4096}) b->Args({length, 1, 6, 128});
  b->Args({4096, 4, 12, 64})->Args({4096, 5, 12, 64});
  b->Args({1024, 6, 12, 64})->Args({1024, 7, 12, 64});
}
BENCHMARK(forward)->Apply(training_sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(backward)->Apply(training_sizes)->Unit(benchmark::kMillisecond);
BENCHMARK(decode)
    ->Args({1024, 0, 12, 64})
    ->Args({1024, 1, 12, 64})
    ->Args({8192, 1, 12, 64})
    ->Args({8192, 1, 2, 64})
    ->Args({8192, 1, 6, 128})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace megalith::kernels
