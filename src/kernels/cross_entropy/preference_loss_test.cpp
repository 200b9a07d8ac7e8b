// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy/preference_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr int64_t kTokens = 23, kPairs = 5;
constexpr double kBeta = 0.3, kSmoothing = 0.125;

/// Answers of several lengths, with tokens that nobody learns in front and between, a pair of
/// weight 0 and a place without a pair.
struct PairsCase {
  explicit PairsCase(DType dtype, double scale = 2) : nll(dtype, Shape{kTokens}) {
    nll.fill([=](int64_t i) { return std::abs(scale * normal(1, static_cast<uint64_t>(i))); });
    targets.fill([](int64_t i) { return i % 4 == 0 ? -1.0 : static_cast<double>(i); });
    constexpr int32_t kRows[kPairs][3] = {{0, 6, 8}, {8, 9, 13}, {13, 16, 18}, {18, 20, 22}, {}};
    rows.fill([&](int64_t i) { return kRows[i / 3][i % 3]; });
    reference.fill_normal(2, 2);
    constexpr double kWeights[kPairs] = {1, 2, 0, 1, 0};
    weight.fill([&](int64_t i) { return kWeights[i]; });
  }
  Outputs values(Exec& exec, double e = kSmoothing, bool with_weights = true) const {
    TestTensor told(nll.dtype(), Shape{kPreferenceValues, kPairs}),
        weights(nll.dtype(), nll.shape());
    preference_loss(exec, {.nll_T = nll,
                           .targets_T = targets,
                           .rows_P3 = rows,
                           .reference_P2 = reference,
                           .weight_P = weight,
                           .beta = kBeta,
                           .label_smoothing = e,
                           .values_VP = told,
                           .weight_T = with_weights ? weights.view() : View{}});
    if (!with_weights) return {told};
    return {told, weights};
  }

  TestTensor nll;
  TestTensor targets{DType::i32, Shape{kTokens}}, rows{DType::i32, Shape{kPairs, 3}};
  TestTensor reference{DType::f32, Shape{kPairs, 2}}, weight{DType::f32, Shape{kPairs}};
};

double told(const TestTensor& values, PreferenceValue which, int64_t pair) {
  return values.at(static_cast<int64_t>(which), pair);
}

/// Sums of the two are the same chain.
TEST(PreferenceLoss, IsTheReferenceWithinItsBound) {
  for (const double scale : {0.1, 2.0, 60.0}) {
    const PairsCase c(DType::f32, scale);
    testing::expect_reference([&](Exec& exec) { return c.values(exec); }, 0, "pairs");
  }
}

TEST(PreferenceLoss, IsTheFormula) {
  const PairsCase c(DType::f64);
  const Outputs values = testing::run_reference([&](Exec& exec) { return c.values(exec); });
  for (int64_t p = 0; p + 1 < kPairs; ++p) {
    const auto sum = [&](int64_t answer) {
      double log_probability = 0;
      const auto end = static_cast<int64_t>(c.rows.at(p, answer + 1));
      for (auto t = static_cast<int64_t>(c.rows.at(p, answer)); t < end; ++t)
        if (t % 4 != 0) log_probability -= c.nll.at(t);
      return log_probability;
    };
    const double chosen = kBeta * (sum(0) - c.reference.at(p, 0)),
                 rejected = kBeta * (sum(1) - c.reference.at(p, 1)), h = chosen - rejected;
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    const double loss =
        -(1 - kSmoothing) * std::log(sigmoid(h)) - kSmoothing * std::log(sigmoid(-h));
    EXPECT_NEAR(told(values[0], PreferenceValue::loss, p), loss, 1e-12) << p;
    EXPECT_NEAR(told(values[0], PreferenceValue::chosen_reward, p), chosen, 1e-12);
    EXPECT_NEAR(told(values[0], PreferenceValue::rejected_reward, p), rejected, 1e-12);
    EXPECT_NEAR(told(values[0], PreferenceValue::margin, p), h, 1e-12);
    EXPECT_EQ(told(values[0], PreferenceValue::accuracy, p), h > 0 ? 1 : 0);
    EXPECT_NEAR(told(values[0], PreferenceValue::chosen_log_probability, p), sum(0), 1e-12);
    EXPECT_NEAR(told(values[0], PreferenceValue::rejected_log_probability, p), sum(1), 1e-12);
  }
}

TEST(PreferenceLoss, WeightsAreFiniteDifferences) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (const double e : {0.0, kSmoothing}) {
    PairsCase c(DType::f64);
    const auto loss = [&] {
      const TestTensor values = c.values(exec, e, false)[0];
      double sum = 0;
      for (int64_t p = 0; p < kPairs; ++p)
        sum += c.weight.at(p) * told(values, PreferenceValue::loss, p);
      return sum;
    };
    const TestTensor weights = c.values(exec, e)[1];
    testing::expect_gradient(loss, c.nll, weights, 1e-9, "nll");
    // A pair of weight 0, and what stands in no pair, weighs exactly nothing.
    for (int64_t t = 13; t < 18; ++t) EXPECT_EQ(weights.at(t), 0) << t;
    EXPECT_EQ(weights.at(22), 0);
  }
}

/// As the model that the reference is of.
TEST(PreferenceLoss, AtTheReferenceItIsLogTwoAndTheMarginNothing) {
  PairsCase c(DType::f32, 20);
  const auto run = [&](Exec& exec) { return c.values(exec, 0); };
  const TestTensor before = testing::run_everywhere(run, "before")[0];
  for (int64_t p = 0; p < kPairs; ++p) {
    c.reference.set(p, 0, told(before, PreferenceValue::chosen_log_probability, p));
    c.reference.set(p, 1, told(before, PreferenceValue::rejected_log_probability, p));
  }
  const Outputs values = testing::run_everywhere(run, "at the reference");
  for (int64_t p = 0; p < kPairs; ++p) {
    EXPECT_EQ(told(values[0], PreferenceValue::margin, p), 0);
    EXPECT_EQ(told(values[0], PreferenceValue::loss, p),
              static_cast<double>(static_cast<float>(std::log(2.0))));
    EXPECT_EQ(told(values[0], PreferenceValue::accuracy, p), 0);
  }
  EXPECT_EQ(values[1].at(1), static_cast<double>(static_cast<float>(kBeta / 2)));
}

/// Neither overflows nor loses the small one.
TEST(PreferenceLoss, OfMarginsFarFromNothing) {
  PairsCase c(DType::f32);
  c.reference.set(0, 0, -2e4);
  c.reference.set(1, 0, 2e4);
  const Outputs values =
      testing::run_everywhere([&](Exec& exec) { return c.values(exec, 0); }, "far");
  EXPECT_EQ(told(values[0], PreferenceValue::loss, 0), 0);
  EXPECT_EQ(values[1].at(1), 0);
  EXPECT_NEAR(told(values[0], PreferenceValue::loss, 1),
              -told(values[0], PreferenceValue::margin, 1), 1e-3);
  EXPECT_EQ(values[1].at(9), -static_cast<double>(static_cast<float>(2 * kBeta)));
}

TEST(PreferenceLoss, RefusesWhatDoesNotFit) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  PairsCase c(DType::f32);
  EXPECT_THROW(c.values(exec, 0.5), InternalError);
  c.weight = TestTensor(DType::f32, Shape{kPairs + 1});
  EXPECT_THROW(c.values(exec), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
