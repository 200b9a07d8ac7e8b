// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/convert.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<Convert> kConvert[] = {
    {"simd", [](const Exec&, const Convert&) { return std::string_view(); }, convert_simd},
    {"reference", [](const Exec&, const Convert&) { return std::string_view(); },
     convert_reference},
};

bool is_convertible(DType dtype) {
  return is_narrow(dtype) || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

}  // namespace

void convert(Exec& exec, ConstView x, View y, Overflow overflow) {
  check_same_shape(x, y);
  MEGA_CHECK(is_convertible(x.dtype()) && is_convertible(y.dtype()), "conversion of {} to {}",
             x.dtype(), y.dtype());
  run_chosen<Convert>(exec, "convert", {0, x.bytes(), y.bytes()}, kConvert, {x, y, overflow});
}

}  // namespace megalith::kernels
