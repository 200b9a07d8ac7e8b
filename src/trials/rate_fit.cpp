// SPDX-License-Identifier: Apache-2.0
#include "trials/rate_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"

namespace megalith::trials {
namespace {

using Row = std::array<double, 4>;

/// Solves the normal equations of the columns in `chosen` by elimination; false when they are
/// dependent.
bool solve(std::span<const Row> rows, unsigned chosen, std::array<double, 3>& x) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < 3; ++i) {
    if ((chosen >> i & 1) != 0) columns.push_back(i);
  }
  const size_t n = columns.size();
  std::array<std::array<double, 4>, 3> a{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) a[i][j] += row[columns[i]] * row[columns[j]];
      a[i][n] += row[columns[i]] * row[3];
    }
  }
  std::array<double, 3> scale{};
  for (size_t i = 0; i < n; ++i) scale[i] = a[i][i];
  for (size_t k = 0; k < n; ++k) {
    if (a[k][k] <= 1e-10 * scale[k]) return false;
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j <= n; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  x = {0, 0, 0};
  for (size_t i = 0; i < n; ++i) x[columns[i]] = a[i][n] / a[i][i];
  return true;
}

double error_of(std::span<const Row> rows, const std::array<double, 3>& x) {
  double sum = 0;
  for (const Row& row : rows) {
    const double off = row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - row[3];
    sum += off * off;
  }
  return sum;
}

}  // namespace

std::array<double, 3> least_squares(std::span<const Row> rows) {
  std::array<double, 3> best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 8; ++chosen) {
    std::array<double, 3> x{};
    if (!solve(rows, chosen, x) || std::ranges::any_of(x, [](double v) { return v < 0; })) continue;
    const double error = error_of(rows, x);
    if (error >= least) continue;
    least = error;
    best = x;
  }
  return best;
}

FittedRate fit_rate(std::span<const KernelSample> samples) {
  MEGA_CHECK(!samples.empty(), "no samples to fit a rate to");
  std::vector<Row> rows;
  for (const KernelSample& s : samples)
    rows.push_back({s.calls / s.seconds, s.flops / s.seconds, s.bytes / s.seconds, 1});
  const std::array<double, 3> x = least_squares(rows);
  FittedRate fitted;
  fitted.rate = {.name = samples[0].name,
                 .type = samples[0].type,
                 .call_seconds = x[0],
                 .flops = x[1] > 0 ? 1 / x[1] : 0,
                 .bandwidth = x[2] > 0 ? 1 / x[2] : 0};
  fitted.samples = std::ssize(samples);
  std::vector<double> errors;
  for (const KernelSample& s : samples)
    errors.push_back(std::abs(fitted.rate.seconds(s.calls, s.flops, s.bytes) / s.seconds - 1));
  std::ranges::sort(errors);
  fitted.median_error = errors[errors.size() / 2];
  return fitted;
}

std::vector<FittedRate> fit_rates(std::vector<KernelSample> samples) {
  std::map<std::pair<std::string, clusters::ProductType>, std::vector<KernelSample>> by_kernel;
  for (KernelSample& sample : samples) {
    if (sample.seconds > 0) by_kernel[{sample.name, sample.type}].push_back(std::move(sample));
  }
  std::vector<FittedRate> rates;
  for (const auto& [kernel, of_kernel] : by_kernel) rates.push_back(fit_rate(of_kernel));
  return rates;
}

}  // namespace megalith::trials
