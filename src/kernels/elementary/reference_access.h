// SPDX-License-Identifier: Apache-2.0
// Elements of any floating type as double: how reference implementations read and write. A view is
// treated as a matrix: dimension 0 gives the rows, all later dimensions together the columns; a 1-D
// view is one row, or one column where a row number is given. Slow on purpose, to be plainly right.
#pragma once

#include <bit>
#include <cmath>

#include "tensor/view.h"

namespace megalith::kernels {

/// A double as f32 for a second rounding to a narrower type, which is then as if it were the only
/// one: rounded to odd. Inexact results take the neighbour whose last bit is set, so the second
/// rounding sees a tie only where there is one (Boldo & Melquiond 2008).
inline float round_to_odd(double x) {
  auto nearest = static_cast<float>(x);
  if (std::isfinite(nearest) && static_cast<double>(nearest) != x &&
      (std::bit_cast<uint32_t>(nearest) & 1u) == 0) {
    const float towards = static_cast<double>(nearest) < x ? INFINITY : -INFINITY;
    nearest = std::nextafterf(nearest, towards);
  }
  return nearest;
}
inline bf16_t round_to_bf16(double x) { return to_bf16(round_to_odd(x)); }
inline f16_t round_to_f16(double x) { return to_f16(round_to_odd(x)); }

inline double read_double(ConstView x, int64_t row, int64_t column) {
  const int64_t i = row * x.row_stride() + column;
  switch (x.dtype()) {
    case DType::f64:
      return x.as<double>()[i];
    case DType::f32:
      return static_cast<double>(x.as<float>()[i]);
    case DType::bf16:
      return static_cast<double>(to_f32(x.as<bf16_t>()[i]));
    case DType::f16:
      return static_cast<double>(to_f32(x.as<f16_t>()[i]));
    case DType::f8_e4m3:
      return static_cast<double>(to_f32(x.as<f8_e4m3_t>()[i]));
    case DType::f8_e5m2:
      return static_cast<double>(to_f32(x.as<f8_e5m2_t>()[i]));
    case DType::f8_e8m0:
      return static_cast<double>(to_f32(x.as<f8_e8m0_t>()[i]));
    case DType::i8:
      return x.as<int8_t>()[i];
    case DType::i32:
      return x.as<int32_t>()[i];
    case DType::i64:
      return static_cast<double>(x.as<int64_t>()[i]);
    default:
      MEGA_CHECK(false, "no reference access to {}", x.dtype());
  }
}

/// Rounds once.
inline void write_double(View y, int64_t row, int64_t column, double value) {
  const int64_t i = row * y.row_stride() + column;
  switch (y.dtype()) {
    case DType::f64:
      y.as<double>()[i] = value;
      break;
    case DType::f32:
      y.as<float>()[i] = static_cast<float>(value);
      break;
    case DType::bf16:
      y.as<bf16_t>()[i] = round_to_bf16(value);
      break;
    case DType::f16:
      y.as<f16_t>()[i] = round_to_f16(value);
      break;
    case DType::f8_e4m3:
      y.as<f8_e4m3_t>()[i] = to_f8_e4m3(round_to_odd(value));
      break;
    case DType::f8_e5m2:
      y.as<f8_e5m2_t>()[i] = to_f8_e5m2(round_to_odd(value));
      break;
    case DType::f8_e8m0:
      y.as<f8_e8m0_t>()[i] = to_f8_e8m0(round_to_odd(value));
      break;
    case DType::i8:
      y.as<int8_t>()[i] = static_cast<int8_t>(value);
      break;
    case DType::i32:
      y.as<int32_t>()[i] = static_cast<int32_t>(value);
      break;
    case DType::i64:
      y.as<int64_t>()[i] = static_cast<int64_t>(value);
      break;
    default:
      MEGA_CHECK(false, "no reference access to {}", y.dtype());
  }
}

}  // namespace megalith::kernels
