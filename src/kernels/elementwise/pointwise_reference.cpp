// SPDX-License-Identifier: Apache-2.0
// The specification: plain loops in double.
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {

void cast_reference(Exec&, const Cast& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) write_double(y, t, c, read_double(x, t, c));
  }
}

void scale_reference(Exec&, const Scale& arguments) {
  const View x = as_matrix(arguments.x);
  const double factor = arguments.factor_view.absent() ? static_cast<double>(arguments.factor)
                                                       : read_double(arguments.factor_view, 0, 0);
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c) write_double(x, t, c, read_double(x, t, c) * factor);
  }
}

void softcap_reference(Exec&, const Softcap& arguments) {
  const View x = as_matrix(arguments.x);
  const double cap = static_cast<double>(arguments.cap);
  const double inner = static_cast<double>(arguments.scale) / cap;
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c)
      write_double(x, t, c, cap * std::tanh(read_double(x, t, c) * inner));
  }
}

void add_reference(Exec&, const Add& arguments) {
  const ConstView a = as_matrix(arguments.a), b = as_matrix(arguments.b);
  const View y = as_matrix(arguments.y);
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      write_double(y, t, c, read_double(a, t, c) + read_double(b, t, c));
    }
  }
}

}  // namespace megalith::kernels
