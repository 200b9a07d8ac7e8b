// SPDX-License-Identifier: Apache-2.0
// How the loss of a model of N parameters falls with D tokens of training (Hoffmann et al. 2022):
//   L(N, D) = E + A / N^alpha + B / D^beta
// and which N and D are best for C = 6 N D operations:
//   N = G (C / 6)^(beta / (alpha + beta)),   G = (alpha A / (beta B))^(1 / (alpha + beta))
#pragma once

#include <span>
#include <string>
#include <vector>

namespace megalith::sizing {

struct LossLaw {
  std::string source;
  double irreducible = 0, a = 0, b = 0, alpha = 1, beta = 1;  // nats a token
  double loss(double parameters, double tokens) const;
  /// The best number of parameters for so many operations.
  double best_parameters(double flops) const;
};
/// As published, and as fitted again to the paper's points by Besiroglu et al. 2024, whose optimum
/// agrees with the paper's other two methods.
std::span<const LossLaw> loss_laws();

/// Tokens for each parameter by the paper's first method, to the round number that is in use.
inline constexpr double kTokensPerParameter = 20;

}  // namespace megalith::sizing
