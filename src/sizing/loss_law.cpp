// SPDX-License-Identifier: Apache-2.0
#include "sizing/loss_law.h"

#include <cmath>

namespace megalith::sizing {

double LossLaw::loss(double parameters, double tokens) const {
  return irreducible + a / std::pow(parameters, alpha) + b / std::pow(tokens, beta);
}

double LossLaw::best_parameters(double flops) const {
  const double g = std::pow(alpha * a / (beta * b), 1 / (alpha + beta));
  return g * std::pow(flops / 6, beta / (alpha + beta));
}

std::span<const LossLaw> loss_laws() {
  static const std::vector<LossLaw> laws = {
      {"Hoffmann et al. 2022, approach 3", 1.69, 406.4, 410.7, 0.34, 0.28},
      {"Besiroglu et al. 2024", 1.8172, 482.01, 2085.43, 0.3478, 0.3658}};
  return laws;
}

}  // namespace megalith::sizing
