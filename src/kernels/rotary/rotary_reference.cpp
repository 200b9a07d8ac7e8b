// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of rotary.h in double, pair by pair.
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/rotary/implementations.h"

namespace megalith::kernels {

void rotary_angles_reference(Exec&, const RotaryAngles& a) {
  const int64_t pairs = a.frequencies.pairs;
  for (int64_t t = 0; t < a.angles_TA.size(0); ++t) {
    const int32_t position = a.position_T.as<int32_t>()[t];
    for (int64_t i = 0; i < pairs; ++i) {
      const float inverse = a.frequencies.inverse[static_cast<size_t>(i)];
      const double angle = a.angles_TA.dtype() == DType::f64
                               ? position * static_cast<double>(inverse)
                               : static_cast<double>(static_cast<float>(position) * inverse);
      const auto scale = static_cast<double>(a.frequencies.scale);
      write_double(a.angles_TA, t, i, std::cos(angle) * scale);
      write_double(a.angles_TA, t, pairs + i, std::sin(angle) * scale);
    }
  }
}

void rotary_apply_reference(Exec&, const RotaryApply& a) {
  const int64_t pairs = a.angles_TA.size(1) / 2, head_size = a.x_TND.head_size;
  const bool half = a.style == RotaryStyle::half;
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      const View x(a.x_TND.at(t, h), a.x_TND.dtype, Shape{1, head_size});
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = half ? i : 2 * i, second = half ? pairs + i : 2 * i + 1;
        const double x1 = read_double(x, 0, first), x2 = read_double(x, 0, second);
        const double c = read_double(a.angles_TA, t, i);
        const double s = read_double(a.angles_TA, t, pairs + i) * (a.inverse ? -1 : 1);
        write_double(x, 0, first, x1 * c - x2 * s);
        write_double(x, 0, second, x2 * c + x1 * s);
      }
    }
  }
}

}  // namespace megalith::kernels
