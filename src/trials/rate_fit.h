// SPDX-License-Identifier: Apache-2.0
// From measured calls of a kernel to its rate: the non-negative costs of a call, an operation and a
// byte with the least sum of squares of relative errors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "clusters/cluster.h"

namespace megalith::trials {

/// Calls of a kernel at one place of a model, together.
struct KernelSample {
  std::string name;
  clusters::ProductType type = clusters::ProductType::f32;
  double calls = 0;
  double flops = 0;
  double bytes = 0;    // read and written
  double seconds = 0;  // > 0
};

struct FittedRate {
  clusters::KernelRate rate;
  int64_t samples = 0;
  double median_error = 0;  // |predicted / measured - 1|
};

/// `samples`: at least one, of one kernel and type.
FittedRate fit_rate(std::span<const KernelSample> samples);

/// By name and type.
std::vector<FittedRate> fit_rates(std::vector<KernelSample> samples);

/// x >= 0 with the least |A x - b|^2; `rows` has A's rows of three, each with its b behind. By
/// trying every set of columns, which is exact.
std::array<double, 3> least_squares(std::span<const std::array<double, 4>> rows);

}  // namespace megalith::trials
