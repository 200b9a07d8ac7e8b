// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/quantize.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<Quantize> kQuantize[] = {
    {"simd", [](const Exec&, const Quantize&) { return std::string_view(); }, quantize_simd},
    {"reference", [](const Exec&, const Quantize&) { return std::string_view(); },
     quantize_reference},
};
constexpr Implementation<Dequantize> kDequantize[] = {
    {"simd", [](const Exec&, const Dequantize&) { return std::string_view(); }, dequantize_simd},
    {"reference", [](const Exec&, const Dequantize&) { return std::string_view(); },
     dequantize_reference},
};
constexpr Implementation<AbsoluteMaximum> kAbsoluteMaximum[] = {
    {"simd", [](const Exec&, const AbsoluteMaximum&) { return std::string_view(); },
     absolute_maximum_simd},
    {"reference", [](const Exec&, const AbsoluteMaximum&) { return std::string_view(); },
     absolute_maximum_reference},
};

void check_wide(const ConstView& x) {
  MEGA_CHECK(is_narrow(x.dtype()) && x.dtype() != DType::f16, "numbers of {}", x.dtype());
}
void check_codes(const ConstView& y) {
  MEGA_CHECK(y.dtype() == DType::f8_e4m3 || y.dtype() == DType::f8_e5m2, "codes of {}", y.dtype());
}

}  // namespace

void quantize(Exec& exec, const Quantize& arguments) {
  const auto& [x, y, scale, transposed, amax, counts] = arguments;
  check_same_shape(x, y);
  check_wide(x);
  check_codes(y);
  check_vector(scale, DType::f32, 1);
  if (!amax.absent()) check_vector(amax, DType::f32, 1);
  if (!counts.absent()) check_vector(counts, DType::i64, kQuantizeCounts);
  if (!transposed.absent()) {
    MEGA_CHECK_EQ(x.shape().num_dims(), 2);
    MEGA_CHECK_EQ(transposed.dtype(), y.dtype());
    MEGA_CHECK(transposed.shape() == (Shape{x.size(1), x.size(0)}), "{} against {}",
               transposed.shape(), x.shape());
  }
  const double flops = 2 * static_cast<double>(x.num_elements());
  const int64_t written = y.bytes() + (transposed.absent() ? 0 : transposed.bytes());
  run_chosen<Quantize>(exec, "quantize", {flops, x.bytes(), written}, kQuantize, arguments);
}

void dequantize(Exec& exec, const Dequantize& arguments) {
  check_same_shape(arguments.x, arguments.y);
  check_codes(arguments.x);
  check_wide(arguments.y);
  check_vector(arguments.scale, DType::f32, 1);
  const double flops = static_cast<double>(arguments.x.num_elements());
  run_chosen<Dequantize>(exec, "dequantize", {flops, arguments.x.bytes(), arguments.y.bytes()},
                         kDequantize, arguments);
}

void absolute_maximum(Exec& exec, ConstView x, View amax) {
  check_wide(x);
  check_vector(amax, DType::f32, 1);
  run_chosen<AbsoluteMaximum>(exec, "absolute_maximum",
                              {static_cast<double>(x.num_elements()), x.bytes(), 0},
                              kAbsoluteMaximum, {x, amax});
}

}  // namespace megalith::kernels
