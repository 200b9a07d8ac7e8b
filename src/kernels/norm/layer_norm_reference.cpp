// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of layer_norm.h in double, element by element.
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {

void layer_norm_forward_reference(Exec&, const LayerNormForward& a) {
  const int64_t columns = a.x_TH.size(1);
  const auto count = static_cast<double>(columns);
  const auto offset = static_cast<double>(a.gamma_offset);
  for (int64_t t = 0; t < a.x_TH.size(0); ++t) {
    double mean = 0, variance = 0;
    if (a.kind == NormKind::layer) {
      for (int64_t c = 0; c < columns; ++c) mean += read_double(a.x_TH, t, c);
      mean /= count;
    }
    for (int64_t c = 0; c < columns; ++c) {
      const double deviation = read_double(a.x_TH, t, c) - mean;
      variance += deviation * deviation;
    }
    const double rstd = 1 / std::sqrt(variance / count + static_cast<double>(a.eps));
    for (int64_t c = 0; c < columns; ++c) {
      double y =
          (read_double(a.x_TH, t, c) - mean) * rstd * (offset + read_double(a.gamma_H, 0, c));
      if (!a.beta_H.absent()) y += read_double(a.beta_H, 0, c);
      write_double(a.y_TH, t, c, y);
    }
    if (!a.mean_T.absent()) write_double(a.mean_T, 0, t, mean);
    if (!a.rstd_T.absent()) write_double(a.rstd_T, 0, t, rstd);
  }
}

void layer_norm_backward_reference(Exec&, const LayerNormBackward& a) {
  const int64_t columns = a.x_TH.size(1);
  const auto count = static_cast<double>(columns);
  const auto offset = static_cast<double>(a.gamma_offset);
  for (int64_t t = 0; t < a.x_TH.size(0); ++t) {
    const double mean = a.kind == NormKind::layer ? read_double(a.mean_T, 0, t) : 0;
    const double rstd = read_double(a.rstd_T, 0, t);
    const int64_t partial = a.shards.partial_of(t);
    double sum = 0, sum_normalised = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double dy = read_double(a.dy_TH, t, c);
      const double normalised = (read_double(a.x_TH, t, c) - mean) * rstd;
      const double g = dy * (offset + read_double(a.gamma_H, 0, c));
      sum += g;
      sum_normalised += g * normalised;
      if (!a.dgamma_PH.absent()) {
        write_double(a.dgamma_PH, partial, c,
                     read_double(a.dgamma_PH, partial, c) + dy * normalised);
      }
      if (!a.dbeta_PH.absent()) {
        write_double(a.dbeta_PH, partial, c, read_double(a.dbeta_PH, partial, c) + dy);
      }
    }
    if (a.kind == NormKind::rms) sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double normalised = (read_double(a.x_TH, t, c) - mean) * rstd;
      const double g = read_double(a.dy_TH, t, c) * (offset + read_double(a.gamma_H, 0, c));
      double dx = rstd * (g - sum / count - normalised * sum_normalised / count);
      if (!a.residual_gradient_TH.absent()) dx += read_double(a.residual_gradient_TH, t, c);
      write_double(a.dx_TH, t, c, dx);
    }
  }
}

}  // namespace megalith::kernels
