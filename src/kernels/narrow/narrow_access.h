// SPDX-License-Identifier: Apache-2.0
// One element of any of the types that conversions know, by the scalar conversions of
// tensor/dtype.h: what the references of this folder read and write with.
#pragma once

#include "base/check.h"
#include "tensor/view.h"

namespace megalith::kernels {

inline float read_float(const ConstView& x, int64_t row, int64_t column) {
  const int64_t i = row * x.row_stride() + column;
  switch (x.dtype()) {
    case DType::f32:
      return x.as<float>()[i];
    case DType::bf16:
      return to_f32(x.as<bf16_t>()[i]);
    case DType::f16:
      return to_f32(x.as<f16_t>()[i]);
    case DType::f8_e4m3:
      return to_f32(x.as<f8_e4m3_t>()[i]);
    case DType::f8_e5m2:
      return to_f32(x.as<f8_e5m2_t>()[i]);
    default:
      MEGA_CHECK(false, "no access to {}", x.dtype());
  }
}

inline void write_float(const View& y, int64_t row, int64_t column, float value,
                        Overflow overflow = Overflow::saturate) {
  const int64_t i = row * y.row_stride() + column;
  switch (y.dtype()) {
    case DType::f32:
      y.as<float>()[i] = value;
      break;
    case DType::bf16:
      y.as<bf16_t>()[i] = to_bf16(value);
      break;
    case DType::f16:
      y.as<f16_t>()[i] = to_f16(value);
      break;
    case DType::f8_e4m3:
      y.as<f8_e4m3_t>()[i] = to_f8_e4m3(value, overflow);
      break;
    case DType::f8_e5m2:
      y.as<f8_e5m2_t>()[i] = to_f8_e5m2(value, overflow);
      break;
    default:
      MEGA_CHECK(false, "no access to {}", y.dtype());
  }
}

}  // namespace megalith::kernels
