// SPDX-License-Identifier: Apache-2.0
// exp, log, sin and cos in double, where a setting or a table must have the same bits on every CPU
// (normal draws, learning-rate schedules). Built on + - x / sqrt and fma only, in a fixed order.
// Kernels, which need throughput, use elementary.h.
#pragma once

#include <span>

namespace megalith::elementary {

/// Natural logarithm, error below 1 ulp. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
double log(double x);
/// e^x, error below 1 ulp. Results below the smallest normal number are 0; overflow is inf.
double exp(double x);
/// exp(x[0] - shift) + exp(x[1] - shift) + ..., added in that order.
double sum_exp(std::span<const float> x, double shift);
/// Error below 1 ulp of the result for |x| <= 1e5 (and absolute error below 2^-53 up to 1e6 when
/// the result is near 0). NaN for an infinite x.
double sin(double x);
double cos(double x);

}  // namespace megalith::elementary
