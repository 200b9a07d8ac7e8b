// SPDX-License-Identifier: Apache-2.0
// The forward product in dot products of 8 bits.
#include "kernels/matmul/dot8.h"
#include "kernels/matmul/linear_lists.h"
#include "kernels/matmul/linear_products.h"

namespace megalith::kernels::matmul {

std::string_view dot8_refuses(const Exec& exec, const LinearForward& a) {
  if (is_plain(a.w_OI.format)) return "the weights are not in blocks";
  if (a.w_OI.format == Format::fp8) return "codes of floating point are no integers";
  if (!exec.device.target().has_dot8) return "this CPU has no dot products of 8 bits";
  for (const ConstView& view :
       {a.x_TI, ConstView(a.y_TO), a.bias_O, ConstView(a.pre_activation_TO)})
    if (view.dtype() == DType::f64) return "f64 is for the reference";
  return {};
}

void dot8(Exec& exec, const LinearForward& a) {
  const Product product = product_of(a);
  if (product.m == 0 || product.n == 0) return;
  run_dot8(product, exec.device.target().isa, exec.device.pool(), exec.scratch);
}

int64_t dot8_scratch_bytes(const Exec& exec, const LinearForward& a) {
  const Product product = product_of(a);
  if (product.m == 0 || product.n == 0) return 0;
  return dot8_scratch_bytes(product, exec.device.target().isa);
}

}  // namespace megalith::kernels::matmul
