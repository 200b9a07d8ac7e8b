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
  const ConstView factors = arguments.factor_view;
  const auto factor = [&](int64_t c) {
    if (factors.absent()) return static_cast<double>(arguments.factor);
    return read_double(factors.reshape(Shape{1, factors.num_elements()}), 0,
                       factors.num_elements() > 1 ? c : 0);
  };
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c) write_double(x, t, c, read_double(x, t, c) * factor(c));
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

void softcap_backward_reference(Exec&, const SoftcapBackward& arguments) {
  const ConstView dy = as_matrix(arguments.dy), y = as_matrix(arguments.y);
  const View dx = as_matrix(arguments.dx);
  const double scale = static_cast<double>(arguments.scale);
  for (int64_t row = 0; row < dx.size(0); ++row) {
    for (int64_t c = 0; c < dx.size(1); ++c) {
      const double t = read_double(y, row, c) / static_cast<double>(arguments.cap);
      write_double(dx, row, c, read_double(dy, row, c) * scale * (1 - t * t));
    }
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
