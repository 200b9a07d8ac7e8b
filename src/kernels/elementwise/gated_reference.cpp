// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of gated.h in double, pair by pair.
#include "kernels/elementary/reference_access.h"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {

void gated_forward_reference(Exec&, const GatedForward& a) {
  for (int64_t t = 0; t < a.y_TF.size(0); ++t) {
    for (int64_t j = 0; j < a.y_TF.size(1); ++j) {
      const double gate = read_double(a.u_TG, t, 2 * j), up = read_double(a.u_TG, t, 2 * j + 1);
      write_double(a.y_TF, t, j, reference_activation(a.kind, gate) * up);
    }
  }
}

void gated_backward_reference(Exec&, const GatedBackward& a) {
  for (int64_t t = 0; t < a.dy_TF.size(0); ++t) {
    for (int64_t j = 0; j < a.dy_TF.size(1); ++j) {
      const double gate = read_double(a.u_TG, t, 2 * j), up = read_double(a.u_TG, t, 2 * j + 1);
      const double dy = read_double(a.dy_TF, t, j);
      write_double(a.du_TG, t, 2 * j, dy * up * reference_activation_grad(a.kind, gate));
      write_double(a.du_TG, t, 2 * j + 1, dy * reference_activation(a.kind, gate));
    }
  }
}

}  // namespace megalith::kernels
