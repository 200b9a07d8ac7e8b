// SPDX-License-Identifier: Apache-2.0
#include "sizing/law_fit.h"

#include <array>
#include <cmath>
#include <set>

#include "base/error.h"

namespace megalith::sizing {
namespace {

constexpr double kDelta = 1e-3;  // of the Huber loss, as in the paper
constexpr size_t kValues = 5;    // e, a, b, alpha, beta
using Values = std::array<double, kValues>;
using Matrix = std::array<Values, kValues>;

/// ln of the law, and its derivatives.
struct Predicted {
  double log_loss;
  Values slope;
};
Predicted predict(const Values& v, const LossPoint& p) {
  const double n = std::log(p.parameters), d = std::log(p.tokens);
  const std::array<double, 3> terms = {std::exp(v[0]), std::exp(v[1] - v[3] * n),
                                       std::exp(v[2] - v[4] * d)};
  const double sum = terms[0] + terms[1] + terms[2];
  return {
      std::log(sum),
      {terms[0] / sum, terms[1] / sum, terms[2] / sum, -n * terms[1] / sum, -d * terms[2] / sum}};
}

double huber(double r) {
  return std::abs(r) <= kDelta ? r * r / 2 : kDelta * (std::abs(r) - kDelta / 2);
}

double cost(const Values& v, std::span<const LossPoint> points) {
  double sum = 0;
  for (const LossPoint& p : points) sum += huber(predict(v, p).log_loss - std::log(p.loss));
  return std::isfinite(sum) ? sum : HUGE_VAL;
}

/// x of m x = y by elimination with pivots; m is positive definite but for rounding.
Values solved(Matrix m, Values y) {
  for (size_t i = 0; i < kValues; ++i) {
    size_t pivot = i;
    for (size_t r = i + 1; r < kValues; ++r)
      if (std::abs(m[r][i]) > std::abs(m[pivot][i])) pivot = r;
    std::swap(m[i], m[pivot]);
    std::swap(y[i], y[pivot]);
    for (size_t r = i + 1; r < kValues; ++r) {
      const double factor = m[r][i] / m[i][i];
      for (size_t c = i; c < kValues; ++c) m[r][c] -= factor * m[i][c];
      y[r] -= factor * y[i];
    }
  }
  for (size_t i = kValues; i-- > 0;) {
    for (size_t c = i + 1; c < kValues; ++c) y[i] -= m[i][c] * y[c];
    y[i] /= m[i][i];
  }
  return y;
}

/// One step of Levenberg and Marquardt on squares that are weighted as the Huber loss has them.
Values step_from(const Values& v, std::span<const LossPoint> points, double damping) {
  Matrix normal{};
  Values right{};
  for (const LossPoint& p : points) {
    const Predicted at = predict(v, p);
    const double r = at.log_loss - std::log(p.loss);
    const double weight = std::abs(r) <= kDelta ? 1 : kDelta / std::abs(r);
    for (size_t i = 0; i < kValues; ++i) {
      right[i] -= weight * r * at.slope[i];
      for (size_t k = 0; k < kValues; ++k) normal[i][k] += weight * at.slope[i] * at.slope[k];
    }
  }
  for (size_t i = 0; i < kValues; ++i) normal[i][i] = normal[i][i] * (1 + damping) + 1e-14;
  Values next = solved(normal, right);
  for (size_t i = 0; i < kValues; ++i) next[i] += v[i];
  return next;
}

struct Found {
  Values values{};
  double cost = HUGE_VAL;
};
Found descend(Values v, std::span<const LossPoint> points) {
  constexpr int kSteps = 300;
  double now = cost(v, points), damping = 1e-2;
  for (int i = 0; i < kSteps && damping < 1e12; ++i) {
    const Values next = step_from(v, points, damping);
    const double then = cost(next, points);
    // Exponents below 0 or enormous are no law.
    const bool sound = next[3] > 0 && next[4] > 0 && next[3] < 3 && next[4] < 3;
    if (sound && then < now) {
      v = next;
      now = then;
      damping = std::max(damping / 3, 1e-12);
    } else {
      damping *= 4;
    }
  }
  return {v, now};
}

Found best_of_grid(std::span<const LossPoint> points) {
  Found best;
  for (const double alpha : {0.2, 0.4, 0.8})
    for (const double beta : {0.2, 0.4, 0.8})
      for (const double e : {-1.0, 0.0, 0.7})
        for (const double a : {2.0, 6.0, 10.0})
          for (const double b : {2.0, 6.0, 10.0}) {
            const Found found = descend({e, a, b, alpha, beta}, points);
            if (found.cost < best.cost) best = found;
          }
  return best;
}

LossLaw law_of(const Values& v) {
  return {"fitted to the given runs", std::exp(v[0]), std::exp(v[1]), std::exp(v[2]), v[3], v[4]};
}

void check(std::span<const LossPoint> points) {
  std::set<double> sizes, tokens;
  for (const LossPoint& p : points) {
    if (!(p.parameters > 0 && p.tokens > 0 && p.loss > 0 && std::isfinite(p.loss)))
      throw UserError("a run of {} parameters and {} tokens has the loss {}; leave it out",
                      p.parameters, p.tokens, p.loss);
    sizes.insert(p.parameters);
    tokens.insert(p.tokens);
  }
  if (points.size() < 6 || sizes.size() < 3 || tokens.size() < 3)
    throw UserError(
        "--fit-loss: {} runs of {} sizes and {} numbers of tokens cannot tell a law of five "
        "values; give six runs at least, of three sizes and three numbers of tokens",
        points.size(), sizes.size(), tokens.size());
}

}  // namespace

double FittedLaw::standard_error(double parameters, double tokens) const {
  const auto n = static_cast<double>(without.size());
  double mean = 0, squares = 0;
  for (const LossLaw& one : without) mean += one.loss(parameters, tokens) / n;
  for (const LossLaw& one : without) squares += std::pow(one.loss(parameters, tokens) - mean, 2);
  return std::sqrt((n - 1) / n * squares);
}

FittedLaw fit_law(std::span<const LossPoint> points) {
  check(points);
  const Found all = best_of_grid(points);
  FittedLaw fitted{law_of(all.values), 0, {}};
  for (const LossPoint& p : points) {
    const double r = std::log(fitted.law.loss(p.parameters, p.tokens) / p.loss);
    fitted.residual += r * r / static_cast<double>(points.size());
  }
  fitted.residual = std::sqrt(fitted.residual);
  for (size_t left_out = 0; left_out < points.size(); ++left_out) {
    std::vector<LossPoint> others(points.begin(), points.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    fitted.without.push_back(law_of(descend(all.values, others).values));
  }
  return fitted;
}

}  // namespace megalith::sizing
