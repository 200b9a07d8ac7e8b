// SPDX-License-Identifier: Apache-2.0
// The three operations in exact arithmetic, as blocked products of gemm.h.
#include "kernels/matmul/fp8_rows.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/linear_lists.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/quantized.h"
#include "kernels/matmul/small_m.h"

namespace megalith::kernels::matmul {
namespace {

template <typename... Views>
std::string_view refuse_f64(const Views&... views) {
  return ((views.dtype() == DType::f64) || ...) ? std::string_view("f64 is for the reference")
                                                : std::string_view();
}

template <typename Arguments>
void run(Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  const device::Target& target = exec.device.target();
  if (is_few_fp8(product)) {
    run_fp8(product, target.isa, exec.device.pool(), exec.scratch, has_wide_lookup(target.isa));
  } else if (is_few_quantized(product)) {
    run_quantized(product, target.isa, exec.device.pool(), exec.scratch);
  } else if (is_small_m(product)) {
    run_small_m(product, target.isa, exec.device.pool(), exec.scratch);
  } else {
    run_gemm(product, plan_gemm(product, target), target.isa, exec.device.pool(), exec.scratch);
  }
}

template <typename Arguments>
int64_t scratch_bytes(const Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m == 0 || product.n == 0 || product.k == 0) return 0;
  const device::Target& target = exec.device.target();
  if (is_few_fp8(product)) return fp8_scratch_bytes(product, target.isa);
  if (is_few_quantized(product)) return quantized_scratch_bytes(product, target.isa);
  if (is_small_m(product)) return small_m_scratch_bytes(product, target.isa);
  return plan_gemm(product, target).scratch_bytes;
}

}  // namespace

std::string_view exact_refuses(const Exec&, const LinearForward& a) {
  const ConstView bias = a.bias_O ? a.bias_O : a.w_OI.view,
                  u = a.pre_activation_TO ? a.pre_activation_TO : a.y_TO;
  return refuse_f64(a.x_TI, a.w_OI.view, a.y_TO, bias, u);
}
std::string_view exact_refuses(const Exec&, const LinearBackwardInput& a) {
  return refuse_f64(a.dy_TO, a.w_OI.view, a.dx_TI, a.pre_activation_TI);
}
std::string_view exact_refuses(const Exec&, const LinearBackwardWeight& a) {
  return refuse_f64(a.dy_TO, a.x_TI, a.dw_OI);
}

void exact(Exec& exec, const LinearForward& a) { run(exec, a); }
void exact(Exec& exec, const LinearBackwardInput& a) { run(exec, a); }
void exact(Exec& exec, const LinearBackwardWeight& a) { run(exec, a); }

int64_t exact_scratch_bytes(const Exec& exec, const LinearForward& a) {
  return scratch_bytes(exec, a);
}
int64_t exact_scratch_bytes(const Exec& exec, const LinearBackwardInput& a) {
  return scratch_bytes(exec, a);
}
int64_t exact_scratch_bytes(const Exec& exec, const LinearBackwardWeight& a) {
  return scratch_bytes(exec, a);
}

}  // namespace megalith::kernels::matmul
