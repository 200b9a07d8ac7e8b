// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of activation.h and their derivatives in double.
#include <cmath>
#include <numbers>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

constexpr double kSqrtTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

double value(Activation kind, double u) {
  switch (kind) {
    case Activation::none:
      return u;
    case Activation::gelu_tanh:
      return 0.5 * u * (1 + std::tanh(kSqrtTwoOverPi * (u + kCubic * u * u * u)));
    case Activation::gelu_erf:
      return 0.5 * u * std::erfc(-u / std::numbers::sqrt2);
  }
  return u;
}

double derivative(Activation kind, double u) {
  switch (kind) {
    case Activation::none:
      return 1;
    case Activation::gelu_tanh: {
      const double t = std::tanh(kSqrtTwoOverPi * (u + kCubic * u * u * u));
      const double inner = kSqrtTwoOverPi * (1 + 3 * kCubic * u * u);
      return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * inner;
    }
    case Activation::gelu_erf: {
      const double density = std::exp(-0.5 * u * u) * 0.5 * kSqrtTwoOverPi;
      return 0.5 * std::erfc(-u / std::numbers::sqrt2) + u * density;
    }
  }
  return 1;
}

}  // namespace

void gelu_forward_reference(Exec&, const GeluForward& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      write_double(y, t, c, value(arguments.kind, read_double(x, t, c)));
    }
  }
}

void gelu_backward_reference(Exec&, const GeluBackward& arguments) {
  const ConstView dy = as_matrix(arguments.dy), u = as_matrix(arguments.u);
  const View dx = as_matrix(arguments.dx);
  for (int64_t t = 0; t < dx.size(0); ++t) {
    for (int64_t c = 0; c < dx.size(1); ++c) {
      const double slope = derivative(arguments.kind, read_double(u, t, c));
      write_double(dx, t, c, read_double(dy, t, c) * slope);
    }
  }
}

}  // namespace megalith::kernels
