// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/scaled_product.h"

#include <vector>

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/narrow/convert.h"
#include "kernels/narrow/narrow_access.h"
#include "math/tensor_core.h"

namespace megalith::kernels {
namespace {

struct CoreProduct {
  ConstView a_MK, b_NK;
  View sum_MN;
  int64_t promote;
};

CoreOperand operand_of(DType dtype) { return dtype == DType::f8_e4m3 ? kCoreE4m3 : kCoreE5m2; }

std::vector<float> widened_row(const ConstView& codes, int64_t row) {
  std::vector<float> values(static_cast<size_t>(codes.size(1)));
  for (int64_t k = 0; k < codes.size(1); ++k) {
    values[static_cast<size_t>(k)] = read_float(codes, row, k);
  }
  return values;
}

void core_product(Exec& exec, const CoreProduct& a) {
  std::vector<std::vector<float>> b_rows;
  for (int64_t n = 0; n < a.b_NK.size(0); ++n) b_rows.push_back(widened_row(a.b_NK, n));
  exec.device.pool().for_range(a.a_MK.size(0), 1, [&](Range range, int) {
    for (int64_t m = range.begin; m < range.end; ++m) {
      const std::vector<float> row = widened_row(a.a_MK, m);
      for (size_t n = 0; n < b_rows.size(); ++n) {
        a.sum_MN.row<float>(m)[n] = core_dot(row, operand_of(a.a_MK.dtype()), b_rows[n],
                                             operand_of(a.b_NK.dtype()), kHopper8, a.promote);
      }
    }
  });
}

constexpr Implementation<CoreProduct> kCoreProduct[] = {
    {"reference", [](const Exec&, const CoreProduct&) { return std::string_view(); }, core_product},
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
  MEGA_CHECK(is_narrow(a.y_MN.dtype()) && a.y_MN.is_contiguous(), "a result of {}", a.y_MN.dtype());
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
