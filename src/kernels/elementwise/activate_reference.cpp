// SPDX-License-Identifier: Apache-2.0
// The specification: activation_reference.h, element by element.
#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
void activation_forward_reference(Exec&, const ActivationForward& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      write_double(y, t, c, reference_activation(arguments.kind, read_double(x, t, c)));
    }
  }
}

void activation_backward_reference(Exec&, const ActivationBackward& arguments) {
  const ConstView dy = as_matrix(arguments.dy), u = as_matrix(arguments.u);
  const View dx = as_matrix(arguments.dx);
  for (int64_t t = 0; t < dx.size(0); ++t) {
    for (int64_t c = 0; c < dx.size(1); ++c) {
      const double slope = reference_activation_grad(arguments.kind, read_double(u, t, c));
      write_double(dx, t, c, read_double(dy, t, c) * slope);
    }
  }
}

}  // namespace megalith::kernels
