// SPDX-License-Identifier: Apache-2.0
// Thinning by lowest and highest per piece (what oscilloscopes do): the drawn curve covers the same
// pixels as the full one. Averages would hide spikes, picking every n-th point would invent calm.
#include "report/series.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace megalith::report {

namespace {

/// Piece of x in [first, last] when cut into `count` equal parts and `count` parts of equal ratio
/// of (x - first + 1). Both numbers never fall, so neither does their sum, and it steps at every
/// cut.
int64_t piece(double x, double first, double last, int64_t count) {
  const double n = static_cast<double>(count);
  const double linear = (x - first) / (last - first);
  const double ratio = std::log(x - first + 1) / std::log(last - first + 1);
  return static_cast<int64_t>(linear * n) + static_cast<int64_t>(ratio * n);
}

}  // namespace

std::vector<Point> smooth(const std::vector<Point>& points, double window) {
  MEGA_CHECK_GE(window, 1.0);
  std::vector<Point> smoothed;
  smoothed.reserve(points.size());
  double mean = points.empty() ? 0 : points.front().y;
  for (const Point& point : points) {
    mean += (point.y - mean) / std::min(window, 1 + static_cast<double>(smoothed.size()) / 8);
    smoothed.push_back({point.x, mean});
  }
  return smoothed;
}

std::vector<Point> decimate(const std::vector<Point>& points, int64_t max_points) {
  MEGA_CHECK_GE(max_points, 8);
  if (static_cast<int64_t>(points.size()) <= max_points) return points;
  const double first = points.front().x;
  const double last = points.back().x;
  // 2 * count + 1 pieces at most (x = last is one of its own), two points each, and the first
  // point.
  const int64_t count = (max_points - 3) / 4;
  std::vector<Point> kept = {points.front()};
  auto keep = [&kept](const Point& point) {
    if (point.x > kept.back().x) kept.push_back(point);
  };
  for (size_t begin = 0, end; begin < points.size(); begin = end) {
    const int64_t number = piece(points[begin].x, first, last, count);
    size_t low = begin;
    size_t high = begin;
    for (end = begin; end < points.size() && piece(points[end].x, first, last, count) == number;
         ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    keep(points[std::min(low, high)]);
    keep(points[std::max(low, high)]);
  }
  MEGA_CHECK_LE(static_cast<int64_t>(kept.size()), max_points);
  return kept;
}

}  // namespace megalith::report
