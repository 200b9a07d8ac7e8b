// SPDX-License-Identifier: Apache-2.0
// The roofline that a benchmark's figure is a share of (Williams et al. 2009): the least time in
// which one thread of this machine could do as many operations, at the rate of its best matrix
// product, and move as many bytes from memory, whichever is longer. Operands that stay in a cache
// can exceed 100 %. For benchmarks only.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

#include "device/device.h"
#include "kernels/exec.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/reduction/read_bandwidth.h"

namespace megalith::kernels::benching {

struct Roofline {
  double flops = 0;  // per second, the best over types
  double bytes = 0;  // per second
};

inline Roofline measure_roofline() {
  constexpr double kSeconds = 0.3;
  constexpr int64_t kBuffer = int64_t{512} << 20;
  const auto device = device::make_cpu_device(1);
  Roofline roofline;
  Exec exec(*device);
  for (const DType dtype : {DType::f32, DType::bf16})
    roofline.flops = std::max(roofline.flops, gemm_ceiling(exec, dtype, kSeconds));
  roofline.bytes = read_bandwidth(exec, kBuffer, kSeconds);
  return roofline;
}

/// Starts before a benchmark's loop and stops after it. Measures the thread's own time, like all
/// its figures.
class RooflineWatch {
 public:
  /// Sets the counter "roofline%", for calls with `flops` operations on `bytes` bytes.
  void report(benchmark::State& state, double flops, double bytes) const {
    const double seconds = thread_seconds() - begin_;
    static const Roofline roofline = measure_roofline();
    const double least = std::max(flops / roofline.flops, bytes / roofline.bytes);
    state.counters["roofline%"] = 100 * least * static_cast<double>(state.iterations()) / seconds;
  }

 private:
  static double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  double begin_ = thread_seconds();
};

}  // namespace megalith::kernels::benching
