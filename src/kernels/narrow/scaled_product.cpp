// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/scaled_product.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/narrow/convert.h"
#include "kernels/narrow/core_product.h"
#include "math/tensor_core.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<CoreProduct> kCoreProduct[] = {
    {"simd", [](const Exec&, const CoreProduct&) { return std::string_view(); }, core_product_simd,
     core_product_scratch},
    {"reference", [](const Exec&, const CoreProduct&) { return std::string_view(); },
     core_product_reference},
};

/// The sums of the products, [M, N] f32.
void add_up(Exec& exec, const ScaledProduct& a, View sum_MN) {
  if (a.accumulate == Accumulate::exact) {
    const device::Tensor x = exec.workspace.tensor(DType::bf16, a.a_MK.shape());
    const device::Tensor w = exec.workspace.tensor(DType::bf16, a.b_NK.shape());
    convert(exec, a.a_MK, x, Overflow::nonfinite);
    convert(exec, a.b_NK, w, Overflow::nonfinite);
    linear_forward(exec, {.x_TI = x, .w_OI = w.view, .y_TO = sum_MN, .k_shards = a.k_shards});
    return;
  }
  const int64_t promote = a.accumulate == Accumulate::hopper_promoted ? kHopperPromote : 0;
  const double flops =
      2.0 * static_cast<double>(a.a_MK.num_elements()) * static_cast<double>(a.b_NK.size(0));
  run_chosen<CoreProduct>(exec, "core_product",
                          {flops, a.a_MK.bytes() + a.b_NK.bytes(), sum_MN.bytes()}, kCoreProduct,
                          {a.a_MK, a.b_NK, sum_MN, promote});
}

void check(const ScaledProduct& a) {
  for (const ConstView& codes : {a.a_MK, a.b_NK}) {
    MEGA_CHECK(codes.dtype() == DType::f8_e4m3 || codes.dtype() == DType::f8_e5m2, "codes of {}",
               codes.dtype());
    MEGA_CHECK_EQ(codes.shape().num_dims(), 2);
    MEGA_CHECK(codes.is_contiguous());
  }
  MEGA_CHECK_EQ(a.a_MK.size(1), a.b_NK.size(1));
  MEGA_CHECK(a.y_MN.shape() == (Shape{a.a_MK.size(0), a.b_NK.size(0)}), "a result of {}",
             a.y_MN.shape());
  MEGA_CHECK(is_narrow(a.y_MN.dtype()) && a.y_MN.dtype() != DType::f16 && a.y_MN.is_contiguous(),
             "a result of {}", a.y_MN.dtype());
  check_vector(a.a_scale, DType::f32, 1);
  check_vector(a.b_scale, DType::f32, 1);
}

}  // namespace

void scaled_product(Exec& exec, const ScaledProduct& arguments) {
  check(arguments);
  const device::Tensor factor = exec.workspace.tensor(DType::f32, {1});
  cast(exec, arguments.a_scale, factor);
  scale(exec, factor, arguments.b_scale);
  const bool in_place = arguments.y_MN.dtype() == DType::f32;
  device::Tensor sums;
  if (!in_place) sums = exec.workspace.tensor(DType::f32, arguments.y_MN.shape());
  const View sum_MN = in_place ? arguments.y_MN : sums.view;
  add_up(exec, arguments, sum_MN);
  scale(exec, sum_MN, ConstView(factor));
  if (!in_place) cast(exec, sum_MN, arguments.y_MN);
}

}  // namespace megalith::kernels
