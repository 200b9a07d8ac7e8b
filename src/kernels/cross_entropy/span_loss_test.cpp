// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy/span_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr int64_t kRows = 23, kColumns = 2, kUnits = 6;
constexpr int32_t kEnds[] = {0, 7, 8, 14, 20};
constexpr double kWeights[kUnits] = {1, 2, 0, 1, 0, 1};  // beyond the fourth there is no sequence
constexpr int32_t kTargets[kUnits][kColumns] = {{2, 6}, {0, 0}, {9, -1}, {0, 3}, {0, 0}, {0, 0}};
constexpr float kScale = 0.25f;

struct SpansCase {
  explicit SpansCase(DType dtype, double scale = 2) : y(dtype, Shape{kRows, kColumns}) {
    y.fill_normal(1, scale);
    ends.fill([](int64_t i) { return kEnds[i]; });
    targets.fill([](int64_t i) { return kTargets[i / kColumns][i % kColumns]; });
    weight.fill([](int64_t i) { return kWeights[i]; });
  }
  Outputs run(Exec& exec, float z_loss = 0, bool with_gradient = true) const {
    TestTensor loss(y.dtype(), Shape{kUnits}), dy(y.dtype(), y.shape());
    span_loss(exec, {.y_TO = y,
                     .cu_seqlens = ends,
                     .targets_UO = targets,
                     .weight_U = weight,
                     .scale = kScale,
                     .z_loss = z_loss,
                     .loss_U = loss,
                     .dy_TO = with_gradient ? dy.view() : View{}});
    if (!with_gradient) return {loss};
    return {loss, dy};
  }
  double lse(int64_t u, int64_t o) const {
    double sum = 0;
    for (int64_t t = kEnds[u]; t < kEnds[u + 1]; ++t) sum += std::exp(y.at(t, o));
    return std::log(sum);
  }

  TestTensor y;
  TestTensor ends{DType::i32, Shape{5}}, targets{DType::i32, Shape{kUnits, kColumns}};
  TestTensor weight{DType::f32, Shape{kUnits}};
};

TEST(SpanLoss, IsTheReferenceWithinItsBound) {
  for (const double scale : {0.1, 2.0, 60.0}) {
    const SpansCase c(DType::f32, scale);
    const auto run = [&](Exec& exec) { return c.run(exec, 1e-3f); };
    testing::expect_reference(run, 1e-13 * scale, "sequences");
  }
}

TEST(SpanLoss, IsTheFormula) {
  const SpansCase c(DType::f64);
  const Outputs values = testing::run_reference([&](Exec& exec) { return c.run(exec); });
  for (int64_t u = 0; u < 4; ++u) {
    double loss = 0;
    for (int64_t o = 0; o < kColumns; ++o) {
      const double lse = c.lse(u, o);
      const int64_t target = kEnds[u] + kTargets[u][o];
      for (int64_t t = kEnds[u]; t < kEnds[u + 1]; ++t) {
        const double share = std::exp(c.y.at(t, o) - lse) - (t == target ? 1 : 0);
        EXPECT_NEAR(values[1].at(t, o), kWeights[u] * 0.125 * share, 1e-14) << u << " " << t;
      }
      if (kWeights[u] != 0) loss += (lse - c.y.at(target, o)) / kColumns;
    }
    EXPECT_NEAR(values[0].at(u), loss, 1e-13) << u;
  }
  // Where there is no sequence there is nothing.
  for (int64_t u = 4; u < kUnits; ++u) EXPECT_EQ(values[0].at(u), 0);
  for (int64_t t = 20; t < kRows; ++t) EXPECT_EQ(values[1].at(t, 0), 0);
}

TEST(SpanLoss, GradientMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  SpansCase c(DType::f64);
  for (const float z : {0.0f, 0.125f}) {
    const auto value = [&] {
      double sum = testing::weighted_sum(c.run(exec, z, false)[0], c.weight);
      for (int64_t u = 0; u < 4; ++u)
        for (int64_t o = 0; o < kColumns; ++o)
          sum += kWeights[u] * static_cast<double>(z) / kColumns * c.lse(u, o) * c.lse(u, o);
      return static_cast<double>(kScale) * sum;
    };
    testing::expect_gradient(value, c.y, c.run(exec, z)[1], 1e-9, "y");
  }
}

TEST(SpanLoss, InPlaceItIsTheSame) {
  const SpansCase c(DType::f32);
  const auto apart = [&](Exec& exec) { return c.run(exec); };
  const auto within = [&](Exec& exec) {
    TestTensor loss(DType::f32, Shape{kUnits}), y = c.y.as(DType::f32);
    span_loss(exec, {.y_TO = y.view(),
                     .cu_seqlens = c.ends,
                     .targets_UO = c.targets,
                     .weight_U = c.weight,
                     .scale = kScale,
                     .loss_U = loss,
                     .dy_TO = y});
    return Outputs{loss, y};
  };
  testing::expect_same_bits(testing::run_everywhere(within, "within"),
                            testing::run_everywhere(apart, "apart"), "in place");
}

TEST(SpanLoss, ASequenceOfWeightZeroSendsNothingBack) {
  SpansCase c(DType::f32);
  for (int64_t t = 8; t < 14; ++t)
    for (int64_t o = 0; o < kColumns; ++o) c.y.set(t, o, std::numeric_limits<double>::quiet_NaN());
  const Outputs values = testing::run_everywhere([&](Exec& exec) { return c.run(exec); }, "masked");
  for (int64_t t = 8; t < 14; ++t) EXPECT_EQ(values[1].at(t, 1), 0);
  EXPECT_EQ(values[0].at(2), 0);
}

TEST(SpanLoss, RefusesWhatDoesNotFit) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  SpansCase c(DType::f32);
  c.targets = TestTensor(DType::i32, Shape{kUnits, 3});
  EXPECT_THROW(c.run(exec), InternalError);
  c = SpansCase(DType::f32);
  c.weight = TestTensor(DType::f32, Shape{3});  // of fewer than there are sequences
  EXPECT_THROW(c.run(exec), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
