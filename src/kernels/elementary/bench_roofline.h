// SPDX-License-Identifier: Apache-2.0
// What a bench's figure is a share of: the time that one thread of this machine needs at least for
// as many operations, at the rate of its best matrix product, and for as many bytes from memory,
// whichever is longer (Williams et al. 2009). Operands that stay in a cache come to more than 100.
// For benches only.
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
  double flops = 0;  // per second, the best over types and arithmetics
  double bytes = 0;  // per second
};

inline Roofline measure_roofline() {
  constexpr double kSeconds = 0.3;
  constexpr int64_t kBuffer = int64_t{512} << 20;
  const auto device = device::make_cpu_device(1);
  Roofline roofline;
  for (const Numerics numerics : {Numerics::exact, Numerics::fast}) {
    Exec exec(*device, numerics);
    for (const DType dtype : {DType::f32, DType::bf16})
      roofline.flops = std::max(roofline.flops, gemm_ceiling(exec, dtype, kSeconds));
  }
  Exec exec(*device);
  roofline.bytes = read_bandwidth(exec, kBuffer, kSeconds);
  return roofline;
}

/// Begins before a bench's loop and ends behind it. The thread's own time, as in all of its
/// figures.
class RooflineWatch {
 public:
  /// Sets the counter "roofline%" for calls of `flops` operations on `bytes` bytes.
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
