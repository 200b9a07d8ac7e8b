// SPDX-License-Identifier: Apache-2.0
// tests/golden/narrow_test.cpp replays 50 steps against an independent program; here each rule
// alone.
#include "kernels/narrow/scale_update.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::TestTensor;

constexpr double kLargestFloat = static_cast<double>(std::numeric_limits<float>::max());

TEST(UpdateScales, RollsTheHistoryOfWhatWasUsed) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor history(DType::f32, Shape{4, 2}), scale(DType::f32, Shape{2}),
      inverse(DType::f32, Shape{2});
  const double before[] = {14, 0, 1, 3, 2, 5, 28, 6};
  history.fill([&](int64_t i) { return before[i]; });
  scale.fill([](int64_t) { return 8; });
  update_scales(exec, {history, scale, inverse});
  const double after[] = {0, 0, 2, 3, 28, 5, 14, 6};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(history.at(i), after[i]) << i;
  EXPECT_EQ(scale.at(0), 16);  // 448 / 28
  EXPECT_EQ(scale.at(1), 8);
  EXPECT_EQ(inverse.at(0), 1.0 / 16);
  EXPECT_EQ(inverse.at(1), 1.0 / 8);
}

TEST(UpdateScales, MarginPowersAndTheEndsOfTheRange) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor history(DType::f32, Shape{1, 3}), scale(DType::f32, Shape{3}),
      inverse(DType::f32, Shape{3});
  const auto scales = [&](const UpdateScales& rules) {
    const double amax[] = {5, 0x1p-149, INFINITY};
    history.fill([&](int64_t i) { return amax[i]; });
    scale.fill([](int64_t) { return 3; });
    UpdateScales all = rules;
    all.history_HN = history, all.scale_N = scale, all.scale_inverse_N = inverse;
    update_scales(exec, all);
    return std::vector<double>{scale.at(0), scale.at(1), scale.at(2)};
  };
  EXPECT_EQ(scales({.margin = 2}),
            (std::vector<double>{static_cast<double>(112.0f / 5), kLargestFloat, 3}));
  EXPECT_EQ(scales({.power_of_two = true}), (std::vector<double>{64, 0x1p127, 3}));
  EXPECT_EQ(scales({.largest = 57344, .choice = AmaxChoice::most_recent}),
            (std::vector<double>{static_cast<double>(57344.0f / 5), kLargestFloat, 3}));
}

TEST(UpdateScales, OneTensorByItsOwnMagnitude) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor amax(DType::f32, Shape{1}), factor(DType::f32, Shape{1}),
      inverse(DType::f32, Shape{1});
  const auto factor_of = [&](double magnitude, const ScaleRule& rule) {
    amax.set(0, magnitude);
    scale_of_amax(exec, {amax, factor, inverse, rule});
    EXPECT_EQ(inverse.at(0), static_cast<double>(1 / static_cast<float>(factor.at(0))));
    return factor.at(0);
  };
  EXPECT_EQ(factor_of(7, {}), 64);
  EXPECT_EQ(factor_of(0, {}), 1);
  EXPECT_EQ(factor_of(NAN, {}), 1);
  EXPECT_EQ(factor_of(INFINITY, {}), 1);
  EXPECT_EQ(factor_of(5, {.power_of_two = true}), 64);
  EXPECT_EQ(factor_of(0, {.epsilon = 7}), 64);
  EXPECT_EQ(factor_of(0x1p-149, {}), kLargestFloat);
  EXPECT_EQ(factor_of(0x1p-149, {.at_most = 1000}), 1000);
}

TEST(UpdateScales, RefusesStateOfAnotherShape) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor history(DType::f32, Shape{4, 2}), scale(DType::f32, Shape{3}),
      inverse(DType::f32, Shape{2});
  EXPECT_THROW(update_scales(exec, {history, scale, inverse}), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
