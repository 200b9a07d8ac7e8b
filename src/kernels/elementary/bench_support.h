// SPDX-License-Identifier: Apache-2.0
// What benchmarks of memory-bound operations share: a one-thread device, filled tensors in its
// memory, and the loop that reports bytes per second. Only the thread's own time counts, so other
// work on the machine matters less. For benchmarks only.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>

#include "device/device.h"
#include "kernels/elementary/bench_roofline.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/exec.h"

namespace megalith::kernels::benching {

class Bench {
 public:
  explicit Bench(device::Isa isa = device::detect_isa())
      : device_(device::make_cpu_device(1, isa)), exec_(*device_) {}

  Exec& exec() { return exec_; }
  device::Tensor tensor(DType dtype, const Shape& shape, double value = 0.5) {
    device::Tensor tensor = device_->arena(device::MemoryClass::activations).tensor(dtype, shape);
    fill(exec_, tensor.view, value);
    return tensor;
  }
  /// Times `body`; `bytes` per call are read and written together.
  void run(benchmark::State& state, int64_t bytes, const std::function<void(Exec&)>& body) {
    const RooflineWatch watch;
    for (auto _ : state) {
      body(exec_);
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * bytes);
    watch.report(state, 0, static_cast<double>(bytes));
  }

 private:
  std::unique_ptr<device::Device> device_;
  Exec exec_;
};

/// The DType of a benchmark's argument: 0 for f32, 1 for bf16.
inline DType dtype_argument(const benchmark::State& state, int index) {
  return state.range(index) == 0 ? DType::f32 : DType::bf16;
}

}  // namespace megalith::kernels::benching
