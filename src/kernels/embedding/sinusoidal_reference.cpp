// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of sinusoidal.h in double, pair by pair.
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/embedding/sinusoidal_implementations.h"

namespace megalith::kernels {
namespace {

double angle_of(int32_t position, float inverse, DType dtype) {
  return dtype == DType::f64 ? position * static_cast<double>(inverse)
                             : static_cast<double>(static_cast<float>(position) * inverse);
}

}  // namespace

void sinusoidal_forward_reference(Exec&, const SinusoidalForward& a) {
  const double scale = read_double(a.scale, 0, 0);
  for (int64_t t = 0; t < a.y_TH.size(0); ++t) {
    for (int64_t i = 0; i < a.inverse_P.size(0); ++i) {
      const double angle =
          angle_of(a.position_T.as<int32_t>()[t], a.inverse_P.as<float>()[i], a.y_TH.dtype());
      for (const int64_t column : {2 * i, 2 * i + 1}) {
        const double p = column % 2 == 0 ? std::sin(angle) : std::cos(angle);
        write_double(a.y_TH, t, column, read_double(a.y_TH, t, column) + scale * p);
      }
    }
  }
}

void sinusoidal_backward_reference(Exec&, const SinusoidalBackward& a) {
  for (int64_t t = 0; t < a.dy_TH.size(0); ++t) {
    double sum = 0;
    for (int64_t i = 0; i < a.inverse_P.size(0); ++i) {
      const double angle =
          angle_of(a.position_T.as<int32_t>()[t], a.inverse_P.as<float>()[i], a.dy_TH.dtype());
      sum += read_double(a.dy_TH, t, 2 * i) * std::sin(angle) +
             read_double(a.dy_TH, t, 2 * i + 1) * std::cos(angle);
    }
    write_double(a.dscale_T, 0, t, sum);
  }
}

}  // namespace megalith::kernels
