// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of activation.h and their derivatives in double. For references.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/elementwise/activation.h"

namespace megalith::kernels {

/// sqrt(2/pi) (u + 0.044715 u^3) and its slope, the argument of gelu_tanh's tanh.
struct GeluTanhInner {
  static constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double kCubic = 0.044715;
  static double value(double u) { return kScale * (u + kCubic * u * u * u); }
  static double slope(double u) { return kScale * (1 + 3 * kCubic * u * u); }
};
inline constexpr double kQuickScale = 1.702;

inline double reference_sigmoid(double u) { return 1 / (1 + std::exp(-u)); }

/// activation(u)
inline double reference_activation(Activation kind, double u) {
  switch (kind) {
    case Activation::none:
      return u;
    case Activation::gelu_tanh:
      return 0.5 * u * (1 + std::tanh(GeluTanhInner::value(u)));
    case Activation::gelu_erf:
      return 0.5 * u * std::erfc(-u / std::numbers::sqrt2);
    case Activation::gelu_quick:
      return u * reference_sigmoid(kQuickScale * u);
    case Activation::silu:
      return u * reference_sigmoid(u);
    case Activation::relu:
      return u < 0 ? 0 : u;
  }
  return u;
}

/// d activation(u) / du
inline double reference_activation_grad(Activation kind, double u) {
  switch (kind) {
    case Activation::none:
      return 1;
    case Activation::gelu_tanh: {
      const double t = std::tanh(GeluTanhInner::value(u));
      return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * GeluTanhInner::slope(u);
    }
    case Activation::gelu_erf: {
      const double density = std::exp(-0.5 * u * u) * 0.5 * GeluTanhInner::kScale;
      return 0.5 * std::erfc(-u / std::numbers::sqrt2) + u * density;
    }
    case Activation::gelu_quick: {
      const double s = reference_sigmoid(kQuickScale * u);
      return s + kQuickScale * u * s * (1 - s);
    }
    case Activation::silu: {
      const double s = reference_sigmoid(u);
      return s + u * s * (1 - s);
    }
    case Activation::relu:
      return u <= 0 ? 0 : 1;
  }
  return 1;
}

}  // namespace megalith::kernels
