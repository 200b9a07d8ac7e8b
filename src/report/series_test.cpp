// SPDX-License-Identifier: Apache-2.0
// What thinning must not lose, and what smoothing must not invent.
#include "report/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "math/random.h"

namespace megalith::report {
namespace {

std::vector<Point> noise(int64_t count) {
  std::vector<Point> points;
  for (int64_t i = 1; i <= count; ++i) {
    points.push_back({static_cast<double>(i), normal(1, static_cast<uint64_t>(i))});
  }
  return points;
}

TEST(Decimate, ShortSeriesAreKeptWhole) {
  EXPECT_TRUE(decimate({}, 8).empty());
  const std::vector<Point> points = noise(2000);
  EXPECT_EQ(decimate(points, 2000), points);
}

TEST(Decimate, KeepsEndsExtremesAndOrderWithinTheLimit) {
  for (const int64_t count : {9, 10, 2001, 4000, 100003}) {
    for (const int64_t limit : {8, 9, 100, 2000}) {
      std::vector<Point> points = noise(count);
      points[static_cast<size_t>(count / 3)].y = 100;   // a spike
      points[static_cast<size_t>(count / 2)].y = -100;  // and a hole
      const std::vector<Point> kept = decimate(points, limit);
      ASSERT_LE(static_cast<int64_t>(kept.size()), std::max(limit, int64_t{8}));
      EXPECT_EQ(kept.front(), points.front());
      EXPECT_EQ(kept.back(), points.back());
      for (size_t i = 1; i < kept.size(); ++i) ASSERT_LT(kept[i - 1].x, kept[i].x);
      for (const Point& point : kept) {
        ASSERT_EQ(point, points[static_cast<size_t>(point.x) - 1]);
      }
      if (count <= limit) continue;
      EXPECT_EQ(std::count_if(kept.begin(), kept.end(), [](Point p) { return p.y == 100; }), 1);
      EXPECT_EQ(std::count_if(kept.begin(), kept.end(), [](Point p) { return p.y == -100; }), 1);
    }
  }
}

TEST(Decimate, KeepsTheExtremesOfEveryColumnOfTheScreen) {
  // With 2000 points of budget each of the 499 equal parts of x keeps its lowest and highest point.
  const std::vector<Point> points = noise(100000);
  const std::vector<Point> kept = decimate(points, 2000);
  auto range_in = [](const std::vector<Point>& all, double begin, double end) {
    Point range{INFINITY, -INFINITY};
    for (const Point& p : all) {
      if (p.x >= begin && p.x < end) range = {std::min(range.x, p.y), std::max(range.y, p.y)};
    }
    return range;
  };
  const double width = (points.back().x - points.front().x) / 499;
  for (int column = 0; column < 499; column += 7) {
    const double begin = points.front().x + width * column;
    const Point all = range_in(points, begin, begin + width);
    ASSERT_EQ(range_in(kept, begin, begin + width), all) << column;
  }
}

TEST(Decimate, ALogarithmicAxisKeepsItsDetail) {
  // The first hundred of a hundred thousand points cover two fifths of a logarithmic axis.
  const std::vector<Point> kept = decimate(noise(100000), 2000);
  EXPECT_GE(std::count_if(kept.begin(), kept.end(), [](Point p) { return p.x <= 100; }), 90);
}

TEST(Smooth, AConstantStaysTheConstantFromTheFirstPoint) {
  std::vector<Point> points;
  for (int i = 0; i < 50; ++i) points.push_back({static_cast<double>(i), 3.0});
  for (const Point& point : smooth(points, 10)) EXPECT_NEAR(point.y, 3.0, 1e-14);
}

TEST(Smooth, AWindowOfOneChangesNothing) {
  const std::vector<Point> points = noise(100);
  const std::vector<Point> smoothed = smooth(points, 1);
  for (size_t i = 0; i < points.size(); ++i) EXPECT_NEAR(smoothed[i].y, points[i].y, 1e-15 * 8);
}

TEST(Smooth, TheWindowGrowsByOneInEightPointsUpToItsSize) {
  std::vector<Point> points;
  for (int i = 0; i < 8; ++i) points.push_back({static_cast<double>(i), 1});
  points.insert(points.end(), {{8, 4}, {9, 4.5}});
  EXPECT_EQ(smooth(points, 2)[7].y, 1);
  EXPECT_EQ(smooth(points, 2)[8].y, 2.5);  // window 2
  EXPECT_EQ(smooth(points, 2)[9].y, 3.5);  // still 2
  EXPECT_EQ(smooth(points, 100)[9].y, 2.5 + 2 / (1 + 9.0 / 8));
}

TEST(Smooth, ASteepBeginningIsNotDraggedBehind) {
  // Against y = 10 exp(-x/60): the lag is about an eighth of the step while the window grows, so
  // the error is below x/8 times the slope, at most 10/60 * 60/8 / e = 0.46. A fixed window of 60
  // is off by more than 2.
  std::vector<Point> points;
  for (int i = 0; i < 400; ++i)
    points.push_back({static_cast<double>(i), 10 * std::exp(-i / 60.0)});
  const std::vector<Point> smoothed = smooth(points, 60);
  double worst = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    worst = std::max(worst, std::abs(smoothed[i].y - points[i].y));
  }
  EXPECT_LT(worst, 0.6);
}

TEST(Smooth, NoiseShrinksAsTheWindowSays) {
  // Variance of an exponential average of independent unit draws: (1 - d) / (1 + d) = 1 / (2w - 1).
  const double window = 50;
  const std::vector<Point> smoothed = smooth(noise(20000), window);
  double sum = 0;
  for (size_t i = 1000; i < smoothed.size(); ++i) sum += smoothed[i].y * smoothed[i].y;
  const double variance = sum / static_cast<double>(smoothed.size() - 1000);
  // 19000 draws correlated over about w: some 380 independent ones, so a relative deviation of
  // sqrt(2/380) = 0.07; three of them.
  EXPECT_NEAR(variance * (2 * window - 1), 1.0, 0.22);
}

}  // namespace
}  // namespace megalith::report
