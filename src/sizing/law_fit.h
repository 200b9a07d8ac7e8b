// SPDX-License-Identifier: Apache-2.0
// A loss law of one's own, fitted to small runs as Hoffmann et al. 2022 (appendix D.3) fit theirs:
//   min over e, a, b, alpha, beta of
//     sum Huber(ln(exp(e) + exp(a - alpha ln N) + exp(b - beta ln D)) - ln L)
// with delta = 0.001, from a grid of beginnings. Deterministic.
#pragma once

#include <span>

#include "sizing/loss_law.h"

namespace megalith::sizing {

/// What a run came to.
struct LossPoint {
  double parameters = 0, tokens = 0, loss = 0;
};

struct FittedLaw {
  LossLaw law;
  /// Root of the mean of the squares of ln(fitted / measured).
  double residual = 0;
  /// The law without each point in turn (a jackknife): how far predictions move.
  std::vector<LossLaw> without;
  /// Standard error of a predicted loss, by the jackknife.
  double standard_error(double parameters, double tokens) const;
};

/// UserError when the points cannot tell: fewer than six, fewer than three sizes or three numbers
/// of tokens among them, losses that are no positive numbers.
FittedLaw fit_law(std::span<const LossPoint> points);

}  // namespace megalith::sizing
