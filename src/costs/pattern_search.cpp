// SPDX-License-Identifier: Apache-2.0
#include "costs/pattern_search.h"

#include <cstddef>
#include <utility>

namespace megalith::costs {

std::vector<double> least_by_pattern(std::vector<double> x,
                                     FunctionRef<double(const std::vector<double>&)> value,
                                     double precision) {
  constexpr int kMostRounds = 20000;
  double best = value(x);
  const auto explore = [&](std::vector<double>& at, double& least, double factor) {
    for (double& coordinate : at) {
      const double before = coordinate;
      for (const double tried : {before * factor, before / factor}) {
        coordinate = tried;
        const double now = value(at);
        if (now < least) {
          least = now;
          break;
        }
        coordinate = before;
      }
    }
  };
  double step = 0.2;
  for (int round = 0; round < kMostRounds && step > precision; ++round) {
    std::vector<double> next = x;
    double least = best;
    explore(next, least, 1 + step);
    if (least >= best) {
      step /= 2;
      continue;
    }
    // On in the same direction, as long as that helps.
    std::vector<double> further = next;
    for (size_t i = 0; i < x.size(); ++i) further[i] = next[i] * next[i] / x[i];
    x = std::move(next);
    best = least;
    double ahead = value(further);
    if (ahead < best) {
      explore(further, ahead, 1 + step);
      x = std::move(further);
      best = ahead;
    }
  }
  return x;
}

}  // namespace megalith::costs
