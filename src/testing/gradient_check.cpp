// SPDX-License-Identifier: Apache-2.0
#include "testing/gradient_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace megalith::testing {
namespace {

struct Estimate {
  double value = 0;
  double bound = 0;
};

Estimate four_points(double& x, double h, FunctionRef<double()> value) {
  const double middle = x;
  double largest = 0;
  const auto at = [&](double offset) {
    x = middle + offset;
    const double y = value();
    largest = std::max(largest, std::abs(y));
    return y;
  };
  const double near = (at(h) - at(-h)) / (2 * h);
  const double far = (at(2 * h) - at(-2 * h)) / (4 * h);
  x = middle;
  const double truncation = std::abs(near - far) / 3;
  return {(4 * near - far) / 3, 0.01 * truncation + std::ldexp(largest, 8 - 53) / h};
}

/// Element numbers: the largest gradients first, then an even spread.
std::vector<size_t> probes(const std::vector<double>& gradient, int count) {
  std::vector<size_t> order(gradient.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return std::abs(gradient[i]); });
  const size_t n = std::min(gradient.size(), static_cast<size_t>(count));
  order.resize((n + 1) / 2);
  for (size_t i = 0; i < n / 2; ++i) order.push_back(i * gradient.size() / (n / 2));
  return order;
}

}  // namespace

std::vector<std::string> gradient_faults(const std::string& name, View x, ConstView gradient,
                                         FunctionRef<double()> value,
                                         const GradientCheckOptions& options) {
  MEGA_CHECK(x.is_contiguous() && gradient.is_contiguous());
  MEGA_CHECK_EQ(x.num_elements(), gradient.num_elements());
  const std::vector<double> g(gradient.as<double>(),
                              gradient.as<double>() + gradient.num_elements());
  double* const elements = x.as<double>();
  std::vector<std::string> faults;
  bool mattered = false;
  for (const size_t i : probes(g, options.elements)) {
    const Estimate estimate = four_points(elements[i], options.step, value);
    // Written so that a NaN on either side is a fault.
    if (!(std::abs(g[i] - estimate.value) <= estimate.bound)) {
      faults.push_back(fmt::format("{}[{}]: gradient {}, finite differences {} +- {}", name, i,
                                   g[i], estimate.value, estimate.bound));
    }
    mattered = mattered || std::abs(estimate.value) > 100 * estimate.bound;
  }
  if (!mattered && options.must_matter)
    faults.push_back(fmt::format("{}: no element moves the value", name));
  return faults;
}

}  // namespace megalith::testing
