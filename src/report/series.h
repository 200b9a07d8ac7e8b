// SPDX-License-Identifier: Apache-2.0
// Curves for the report page: smoothed, and thinned to what a screen can show without losing a
// spike.
#pragma once

#include <cstdint>
#include <vector>

namespace megalith::report {

struct Point {
  double x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};

/// Exponential moving average whose window grows with the run until it is `window` (>= 1) points:
///   y'_i = y'_(i-1) + (y_i - y'_(i-1)) / w_i,   w_i = min(window, 1 + i/8),   i from 0
/// so that the steep beginning, where the trend is far above the noise, is not dragged behind. Each
/// x is kept. y must be finite.
std::vector<Point> smooth(const std::vector<Point>& points, double window);

/// At most `max_points` (>= 8) of the points, in order; x must be finite and strictly increasing.
/// Cuts the range of x into equal parts and also, so that a logarithmic axis keeps its detail, into
/// parts of equal ratio, and keeps the lowest and the highest point of each part. The first and the
/// last point, the minimum and the maximum are always kept.
std::vector<Point> decimate(const std::vector<Point>& points, int64_t max_points);

}  // namespace megalith::report
