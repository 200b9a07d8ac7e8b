// SPDX-License-Identifier: Apache-2.0
// Rates of the loss over GPT-2's vocabulary, one thread, in GB/s of logits (each step reads or
// writes them once or twice; rows in chunks of the size that training uses).
#include <benchmark/benchmark.h>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/elementary/bench_roofline.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

constexpr int64_t kVocab = 50304;

struct BenchLoss {
  testing::TestTensor logits, exps, max, sums, target, targets, weights;
  explicit BenchLoss(int64_t rows)
      : logits(DType::f32, Shape{rows, kVocab}),
        exps(DType::f32, Shape{rows, kVocab}),
        max(DType::f32, Shape{rows}),
        sums(DType::f32, Shape{1, rows}),
        target(DType::f32, Shape{rows}),
        targets(DType::i32, Shape{rows}),
        weights(DType::f32, Shape{rows}) {
    logits.fill([](int64_t i) { return static_cast<double>(i % 1009) * 0.01; });
    targets.fill_constant(17);
    weights.fill_constant(1);
  }
  static VocabRange vocab() { return {.begin = 0, .valid = 50257, .shards = 1}; }
};

void report(benchmark::State& state, const benching::RooflineWatch& watch, const BenchLoss& x,
            int64_t bytes_per_logit) {
  const int64_t bytes = x.logits.size() * bytes_per_logit;
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
  watch.report(state, 0, static_cast<double>(bytes));
}

void row_max(benchmark::State& state) {
  BenchLoss x(state.range(0));
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const benching::RooflineWatch watch;
  for (auto _ : state) {
    cross_entropy_row_max(exec, {x.logits.view(), BenchLoss::vocab(), x.max.view()});
  }
  report(state, watch, x, 4);
}

void exp_sums(benchmark::State& state) {
  BenchLoss x(state.range(0));
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  cross_entropy_row_max(exec, {x.logits.view(), BenchLoss::vocab(), x.max.view()});
  const benching::RooflineWatch watch;
  for (auto _ : state) {
    cross_entropy_exp_sums(exec, {.logits_RV = x.logits.view(),
                                  .vocab = BenchLoss::vocab(),
                                  .max_R = x.max.view(),
                                  .targets_R = x.targets.view(),
                                  .exps_RV = x.exps.view(),
                                  .sums_PR = x.sums.view(),
                                  .target_R = x.target.view()});
  }
  report(state, watch, x, 8);
}

void gradient(benchmark::State& state) {
  BenchLoss x(state.range(0));
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  x.max.fill_constant(1);
  x.target.fill_constant(2);
  const benching::RooflineWatch watch;
  for (auto _ : state) {
    cross_entropy_gradient(exec, {.exps_RV = x.logits.view(),
                                  .vocab = BenchLoss::vocab(),
                                  .max_R = x.max.view(),
                                  .sum_R = x.target.view(),
                                  .targets_R = x.targets.view(),
                                  .weight_R = x.weights.view(),
                                  .scale = 1e-3f,
                                  .z_loss = 0,
                                  .dlogits_RV = x.exps.view()});
  }
  report(state, watch, x, 8);
}

BENCHMARK(row_max)->Arg(8)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(exp_sums)->Arg(8)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(gradient)->Arg(8)->Arg(256)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace megalith::kernels
