// SPDX-License-Identifier: Apache-2.0
// Times what `fast` and `exact` make of one product of each class on this machine. Apart from the
// classes themselves (product_class.cpp), which also those need that multiply nothing.
#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/product_class.h"

namespace megalith::kernels {
namespace {

struct Size {
  int64_t rows, inputs, outputs;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) *
           static_cast<double>(outputs);
  }
};
constexpr Size kSmall{1024, 256, 1024};
constexpr Size kLarge{2048, 768, 1536};

/// The operands of one class.
struct Sample {
  device::Tensor x, w, y, dw;
  Size size;
  Sample(Exec& exec, const ProductClass& c) : size(c.is_large ? kLarge : kSmall) {
    const DType dtype = c.is_bf16 ? DType::bf16 : DType::f32;
    x = exec.workspace.tensor(dtype, Shape{size.rows, size.inputs});
    w = exec.workspace.tensor(dtype, Shape{size.outputs, size.inputs});
    y = exec.workspace.tensor(dtype, Shape{size.rows, size.outputs});
    dw = exec.workspace.tensor(DType::f32, Shape{size.outputs, size.inputs});
    fill(exec, x, 0.5);
    fill(exec, w, 0.25);
    fill(exec, y, 0.125);
    fill(exec, dw, 0);
  }
};

void multiply(Exec& exec, ProductKind kind, const Sample& s) {
  switch (kind) {
    case ProductKind::forward:
      return linear_forward(exec, {.x_TI = s.x, .w_OI = s.w, .y_TO = s.y});
    case ProductKind::backward_input:
      return linear_backward_input(exec, {.dy_TO = s.y, .w_OI = s.w, .dx_TI = s.x});
    case ProductKind::backward_weight:
      return linear_backward_weight(exec, {s.y, s.x, s.dw});
  }
}

double seconds_of(Exec& exec, ProductKind kind, const Sample& sample) {
  const double begin = monotonic_seconds();
  multiply(exec, kind, sample);
  return monotonic_seconds() - begin;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The median calls of both sides, in turn, after one to warm up. (The best calls would compare
/// moments in which the machine gave most, and those need not be the same for both.)
ProductRate rate(Exec& exact, Exec& library, ProductKind kind, const Sample& sample,
                 double seconds) {
  constexpr size_t kLeastCalls = 5;
  multiply(exact, kind, sample);
  const bool can = library_multiplies(sample.x.view.dtype());
  if (can) multiply(library, kind, sample);
  std::vector<double> of_exact, of_library;
  const double end = monotonic_seconds() + seconds;
  while (of_exact.size() < kLeastCalls || monotonic_seconds() < end) {
    of_exact.push_back(seconds_of(exact, kind, sample));
    if (can) of_library.push_back(seconds_of(library, kind, sample));
  }
  return {sample.size.flops() / median(of_exact),
          can ? sample.size.flops() / median(of_library) : 0};
}

}  // namespace

ProductRates measure_products(const device::Target& target, double seconds) {
  const auto device = device::make_cpu_device(target.num_threads, target.isa);
  ProductRates rates;
  const double each = seconds / kNumProductClasses;
  for (int i = 0; i < kNumProductClasses; ++i) {
    const ProductClass c = product_class(i);
    Exec exact(*device, Numerics::exact), library(*device, Numerics::fast);
    library.only = "onednn";
    const Sample sample(exact, c);
    rates[static_cast<size_t>(i)] = rate(exact, library, c.kind, sample, each);
  }
  return rates;
}

}  // namespace megalith::kernels
