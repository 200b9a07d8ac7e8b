// SPDX-License-Identifier: Apache-2.0
#include "testing/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace megalith::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct Curve {
  std::array<double, 5> x{0.3, -1.2, 0.7, 2.0, -0.4};
  std::array<double, 5> g{};
  Curve() {
    for (size_t i = 0; i < x.size(); ++i)
      g[i] = weight(i) * std::cos(x[i]) * std::exp(std::sin(x[i]));
  }
  static double weight(size_t i) { return static_cast<double>(i) + 1; }
  double value() const {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += weight(i) * std::exp(std::sin(x[i]));
    return sum;
  }
  std::vector<std::string> faults() {
    return gradient_faults("x", View(reinterpret_cast<std::byte*>(x.data()), DType::f64, Shape{5}),
                           View(reinterpret_cast<std::byte*>(g.data()), DType::f64, Shape{5}),
                           [this] { return value(); }, {.elements = 10});
  }
};

TEST(GradientCheck, PassesTheRightGradientAndRestoresTheInput) {
  Curve curve;
  const auto before = curve.x;
  EXPECT_THAT(curve.faults(), IsEmpty());
  EXPECT_EQ(curve.x, before);
}

TEST(GradientCheck, FindsAnErrorOfOnePartInAMillion) {
  Curve curve;
  curve.g[3] *= 1 + 1e-6;
  EXPECT_THAT(curve.faults(), Not(IsEmpty()));
}

TEST(GradientCheck, FindsASkippedGradientAndNaN) {
  Curve skipped;
  skipped.g.fill(0);
  EXPECT_THAT(skipped.faults(), Not(IsEmpty()));
  Curve undefined;
  undefined.g[0] = std::nan("");
  EXPECT_THAT(undefined.faults(), Not(IsEmpty()));
}

TEST(GradientCheck, AValueThatNothingMovesIsNotATest) {
  std::array<double, 2> x{1, 2}, g{0, 0};
  const auto view = [](auto& a) {
    return View(reinterpret_cast<std::byte*>(a.data()), DType::f64, Shape{2});
  };
  EXPECT_THAT(gradient_faults("x", view(x), view(g), [] { return 3.0; }), SizeIs(1));
  EXPECT_THAT(gradient_faults("x", view(x), view(g), [] { return 3.0; }, {.must_matter = false}),
              IsEmpty());
}

}  // namespace
}  // namespace megalith::testing
