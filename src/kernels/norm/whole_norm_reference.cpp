// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of whole_norm.h in double, element by element.
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {
namespace {

/// Element (t, h, d).
double read(const ConstHeadsView& x, int64_t t, int64_t h, int64_t d) {
  return read_double({x.at(t, h), x.dtype, Shape{1, x.head_size}}, 0, d);
}
void write(const HeadsView& y, int64_t t, int64_t h, int64_t d, double value) {
  write_double({y.at(t, h), y.dtype, Shape{1, y.head_size}}, 0, d, value);
}
double entry(const ConstView& x_T, int64_t t) { return x_T.absent() ? 0 : read_double(x_T, 0, t); }

struct Row {
  double mean, rstd;
  Row(const RowTotals& totals, int64_t t)
      : mean(entry(totals.sum_T, t) / static_cast<double>(totals.width)),
        rstd(1 / std::sqrt(entry(totals.squares_T, t) / static_cast<double>(totals.width) +
                           static_cast<double>(totals.eps))) {}
};

/// body(h, d) for the heads of run p of P.
template <class Body>
void for_run(const ConstHeadsView& x, int64_t p, int64_t partials, const Body& body) {
  const int64_t run = x.num_heads / partials;
  for (int64_t h = p * run; h < (p + 1) * run; ++h) {
    for (int64_t d = 0; d < x.head_size; ++d) body(h, d);
  }
}

}  // namespace

void whole_norm_sums_reference(Exec&, const WholeNormSums& a) {
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    const double mean = a.sum_T.absent() ? 0 : entry(a.sum_T, t) / static_cast<double>(a.width);
    for (int64_t p = 0; p < a.sums_PT.size(0); ++p) {
      double sum = 0;
      for_run(a.x_TND, p, a.sums_PT.size(0), [&](int64_t h, int64_t d) {
        const double x = read(a.x_TND, t, h, d);
        sum += a.squares ? (x - mean) * (x - mean) : x;
      });
      write_double(a.sums_PT, p, t, sum);
    }
  }
}

void whole_norm_forward_reference(Exec&, const WholeNormForward& a) {
  const auto offset = static_cast<double>(a.gamma_offset);
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    const Row row(a.totals, t);
    for_run(a.x_TND, 0, 1, [&](int64_t h, int64_t d) {
      const double normalised = (read(a.x_TND, t, h, d) - row.mean) * row.rstd;
      write(a.y_TND, t, h, d, normalised * (offset + read_double(a.gamma_ND, h, d)));
    });
  }
}

void whole_norm_gradient_sums_reference(Exec&, const WholeNormGradientSums& a) {
  const auto offset = static_cast<double>(a.gamma_offset);
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    const Row row(a.totals, t);
    for (int64_t p = 0; p < a.products_PT.size(0); ++p) {
      double sum = 0, products = 0;
      for_run(a.x_TND, p, a.products_PT.size(0), [&](int64_t h, int64_t d) {
        const double g = read(a.dy_TND, t, h, d) * (offset + read_double(a.gamma_ND, h, d));
        sum += g;
        products += g * (read(a.x_TND, t, h, d) - row.mean) * row.rstd;
      });
      if (!a.sums_PT.absent()) write_double(a.sums_PT, p, t, sum);
      write_double(a.products_PT, p, t, products);
    }
  }
}

void whole_norm_backward_reference(Exec&, const WholeNormBackward& a) {
  const auto offset = static_cast<double>(a.gamma_offset);
  const auto width = static_cast<double>(a.totals.width);
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    const Row row(a.totals, t);
    for_run(a.x_TND, 0, 1, [&](int64_t h, int64_t d) {
      const double g = read(a.dy_TND, t, h, d) * (offset + read_double(a.gamma_ND, h, d));
      const double normalised = (read(a.x_TND, t, h, d) - row.mean) * row.rstd;
      const double product = entry(a.product_T, t);
      write(a.dx_TND, t, h, d,
            row.rstd * (g - entry(a.sum_g_T, t) / width - normalised * product / width));
    });
  }
}

void whole_norm_weight_gradient_reference(Exec&, const WholeNormWeightGradient& a) {
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    const Row row(a.totals, t);
    for_run(a.x_TND, 0, 1, [&](int64_t h, int64_t d) {
      const double normalised = (read(a.x_TND, t, h, d) - row.mean) * row.rstd;
      write_double(a.dgamma_ND, h, d,
                   read_double(a.dgamma_ND, h, d) + read(a.dy_TND, t, h, d) * normalised);
    });
  }
}

}  // namespace megalith::kernels
