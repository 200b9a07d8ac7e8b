// SPDX-License-Identifier: Apache-2.0
// megalith bench gemm: matrix products of our kernels beside the library's, and the best of all.
#include <fmt/format.h>

#include "apps/bench/figures.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/library.h"
#include "kernels/matmul/linear.h"

namespace megalith::apps {
namespace {

struct Size {
  int64_t t, i, o;
};

/// The three products of a linear layer, ours and the library's, in turn so that both see the same
/// machine.
void gemm_of(device::Device& device, DType dtype, const Size& size, const BenchOptions& o,
             bool json) {
  const auto& [t, i, out] = size;
  device::Arena& arena = device.arena(device::MemoryClass::workspace);
  const device::Tensor x = arena.tensor(dtype, Shape{t, i}), w = arena.tensor(dtype, Shape{out, i});
  const device::Tensor y = arena.tensor(dtype, Shape{t, out}),
                       dw = arena.tensor(DType::f32, Shape{out, i});
  kernels::Exec exact(device, kernels::Numerics::exact), library(device, kernels::Numerics::fast);
  library.only = "onednn";
  const bool has_library = kernels::library_multiplies(dtype);
  kernels::fill(exact, x, 0.5);
  kernels::fill(exact, w, 0.25);
  kernels::fill(exact, dw, 0);
  const double work =
      2e-9 * static_cast<double>(t) * static_cast<double>(i) * static_cast<double>(out);
  const auto measure = [&](const char* what, auto product) {
    product(exact);
    if (has_library) product(library);
    std::vector<double> exact_rates, library_rates, shares;
    for (int sample = 0; sample < o.samples; ++sample) {
      exact_rates.push_back(rate(work, [&] { product(exact); }));
      if (!has_library) continue;
      library_rates.push_back(rate(work, [&] { product(library); }));
      shares.push_back(100 * exact_rates.back() / library_rates.back());
    }
    const std::string shape = fmt::format("{}.{}.{}x{}x{}", dtype, what, t, i, out);
    report("gemm.exact." + shape, exact_rates, "GFLOP/s", true, o.count(), json);
    if (!has_library) return;
    report("gemm.library." + shape, library_rates, "GFLOP/s", true, o.count(), json);
    report("gemm.exact_over_library." + shape, shares, "%", true, o.count(), json);
  };
  measure("forward", [&](kernels::Exec& exec) {
    kernels::linear_forward(exec, {.x_TI = x, .w_OI = w, .y_TO = y});
  });
  measure("backward_input", [&](kernels::Exec& exec) {
    kernels::linear_backward_input(exec, {.dy_TO = y, .w_OI = w, .dx_TI = x});
  });
  measure("backward_weight", [&](kernels::Exec& exec) {
    kernels::linear_backward_weight(exec, {y, x, dw});
  });
}

}  // namespace

int bench_gemm(const BenchOptions& o, bool json) {
  const auto device = device::make_device(device::cpu_target(o.count()));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Size& size : {Size{4096, 768, 3072}, Size{4096, 3072, 768}, Size{1024, 256, 1024},
                             Size{2048, 2048, 2048}})
      gemm_of(*device, dtype, size, o, json);
  }
  for (const auto& [name, rates] : BestGemm(o.count()).ceilings(o.samples))
    report("gemm.ceiling." + name, rates, "GFLOP/s", true, o.count(), json);
  return 0;
}

}  // namespace megalith::apps
