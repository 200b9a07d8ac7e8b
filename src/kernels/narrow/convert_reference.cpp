// SPDX-License-Identifier: Apache-2.0
// The specification: widening to f32 is exact, so that narrowing from it is the only rounding.
#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"
#include "kernels/narrow/narrow_access.h"

namespace megalith::kernels {

void convert_reference(Exec&, const Convert& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      write_float(y, t, c, read_float(x, t, c), arguments.overflow);
    }
  }
}

}  // namespace megalith::kernels
