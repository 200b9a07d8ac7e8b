// SPDX-License-Identifier: Apache-2.0
#include "trials/product_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/read_bandwidth.h"
#include "trials/placed_ranks.h"
#include "trials/rate_fit.h"

namespace megalith::trials {
namespace {

constexpr int64_t kDepths[] = {32, 64, 128, 256, 512, 1024, 2048};
constexpr int64_t kRows = 512, kColumns = 512;

double product_seconds(kernels::Exec& exec, DType dtype, int64_t depth, int samples) {
  const device::Tensor x = exec.workspace.tensor(dtype, Shape{kRows, depth});
  const device::Tensor w = exec.workspace.tensor(dtype, Shape{kColumns, depth});
  const device::Tensor y = exec.workspace.tensor(dtype, Shape{kRows, kColumns});
  kernels::fill(exec, x, 0.5);
  kernels::fill(exec, w, 0.25);
  double least = std::numeric_limits<double>::infinity();
  for (int sample = 0; sample <= samples; ++sample) {
    const double begin = monotonic_seconds();
    kernels::linear_forward(exec, {.x_TI = x, .w_OI = w, .y_TO = y});
    if (sample > 0) least = std::min(least, monotonic_seconds() - begin);
  }
  return least;
}

/// seconds = 2 T N K / (peak share) (1 + depth / K): linear in 1 / rate and depth / rate.
struct Curve {
  double rate = 0, depth = 0;
  std::vector<double> errors;
};
Curve curve_of(const std::vector<std::pair<double, double>>& seconds_by_depth) {
  std::vector<std::array<double, 4>> rows;
  constexpr double kArea = 2.0 * kRows * kColumns;
  for (const auto& [depth, seconds] : seconds_by_depth)
    rows.push_back({kArea * depth / seconds, kArea / seconds, 0, 1});
  const auto x = least_squares(rows);
  Curve curve{1 / x[0], x[1] / x[0], {}};
  for (const auto& [depth, seconds] : seconds_by_depth) {
    const double predicted = kArea * depth / curve.rate * (1 + curve.depth / depth);
    curve.errors.push_back(std::abs(predicted / seconds - 1));
  }
  return curve;
}

}  // namespace

MachineRates measure_rates(int ranks, int threads, int samples) {
  MachineRates rates;
  std::vector<double> errors;
  on_placed_ranks(ranks, threads, [&](comm::Communicator& world, device::Device& device) {
    kernels::Exec exec(device);
    const bool is_zero = world.rank() == 0;
    for (const auto& [type, dtype] : {std::pair{clusters::ProductType::f32, DType::f32},
                                      std::pair{clusters::ProductType::bf16, DType::bf16}}) {
      world.barrier("ceiling");
      const double ceiling = kernels::gemm_ceiling(exec, dtype, 0.5);
      std::vector<std::pair<double, double>> seconds;
      for (const int64_t depth : kDepths) {
        world.barrier("product");
        seconds.emplace_back(static_cast<double>(depth),
                             product_seconds(exec, dtype, depth, 4 * samples));
      }
      if (!is_zero) continue;
      const Curve curve = curve_of(seconds);
      const double peak = std::max(ceiling, curve.rate);
      rates.products.push_back(
          {.type = type, .peak = peak, .share = curve.rate / peak, .depth = curve.depth});
      errors.insert(errors.end(), curve.errors.begin(), curve.errors.end());
    }
    world.barrier("bandwidth");
    const double bandwidth = kernels::read_bandwidth(exec, int64_t{256} << 20, 0.3);
    if (is_zero) rates.bandwidth = bandwidth;
  });
  std::ranges::sort(errors);
  rates.product_error = errors[errors.size() / 2];
  return rates;
}

}  // namespace megalith::trials
