// SPDX-License-Identifier: Apache-2.0
#include "precision/scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/narrow/quantize.h"

namespace megalith::precision {
namespace {

using kernels::testing::TestTensor;

class ScalingTest : public ::testing::Test {
 protected:
  Scaling make(const ScalingOptions& options, Operand operand = Operand::input) {
    return {*device_, options, operand, {"q", "k"}};
  }
  /// A step that sees x of tensor 0; its scale afterwards.
  float step(Scaling& scaling, const TestTensor& x) {
    TestTensor codes(scaling.code_type(), x.shape()), scales(DType::f32, Shape{1});
    scaling.quantize(exec_, 0, x, {.codes = codes, .scales = scales});
    scaling.update(exec_);
    return scaling.scale().as<float>()[0];
  }
  static TestTensor filled(double value) {
    return TestTensor(DType::f32, Shape{2, 3}).fill([=](int64_t) { return value; });
  }

  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  kernels::Exec exec_{*device_};
};

TEST_F(ScalingTest, DelayedScalesByTheStepBefore) {
  ScalingOptions options;
  options.history = 2;
  Scaling scaling = make(options);
  const TestTensor x = filled(7);
  TestTensor codes(DType::f8_e4m3, x.shape()), scales(DType::f32, Shape{1});
  scaling.quantize(exec_, 0, x, {.codes = codes, .scales = scales});
  EXPECT_EQ(codes.at(0), 7);  // the first step has a scale of 1
  EXPECT_EQ(scales.at(0), 1);
  scaling.update(exec_);
  EXPECT_EQ(scaling.scale().as<float>()[0], 64);
  scaling.quantize(exec_, 0, x, {.codes = codes, .scales = scales});
  EXPECT_EQ(codes.at(0), 448);
  EXPECT_EQ(scales.at(0), 1.0 / 64);
  EXPECT_EQ(scaling.scale().as<float>()[1], 1);  // never seen
}

TEST_F(ScalingTest, WhatIsNotFiniteOrZeroKeepsTheScale) {
  ScalingOptions options;
  options.history = 1;
  Scaling scaling = make(options);
  EXPECT_EQ(step(scaling, filled(7)), 64);
  EXPECT_EQ(step(scaling, filled(INFINITY)), 64);
  EXPECT_EQ(step(scaling, filled(NAN)), 64);
  EXPECT_EQ(step(scaling, filled(0)), 64);
  EXPECT_EQ(step(scaling, filled(3.5)), 128);
  EXPECT_EQ(step(scaling, filled(0x1p-149)), std::numeric_limits<float>::max());
}

TEST_F(ScalingTest, MostRecentForgetsAndMaxRemembers) {
  for (const auto choice : {kernels::AmaxChoice::max, kernels::AmaxChoice::most_recent}) {
    ScalingOptions options;
    options.history = 4;
    options.choice = choice;
    Scaling scaling = make(options);
    step(scaling, filled(7));
    EXPECT_EQ(step(scaling, filled(3.5)), choice == kernels::AmaxChoice::max ? 64 : 128);
  }
}

TEST_F(ScalingTest, CodesFollowFormatAndOperand) {
  ScalingOptions hybrid;
  EXPECT_EQ(make(hybrid, Operand::weight).code_type(), DType::f8_e4m3);
  EXPECT_EQ(make(hybrid, Operand::output_gradient).code_type(), DType::f8_e5m2);
  hybrid.format = Fp8Format::e4m3;
  EXPECT_EQ(make(hybrid, Operand::output_gradient).code_type(), DType::f8_e4m3);
  for (const auto policy : {ScalingPolicy::block, ScalingPolicy::mx}) {
    EXPECT_EQ(make(ScalingOptions::of(policy), Operand::output_gradient).code_type(),
              DType::f8_e4m3);
  }
}

TEST_F(ScalingTest, CurrentScalesByTheTensorItself) {
  ScalingOptions options = ScalingOptions::of(ScalingPolicy::current);
  Scaling scaling = make(options);
  const TestTensor x = TestTensor(DType::bf16, Shape{2, 3}).fill([](int64_t i) {
    return static_cast<double>(i) - 3.5;
  });
  TestTensor codes(DType::f8_e4m3, x.shape()), scales(DType::f32, Shape{1});
  TestTensor amax = TestTensor(DType::f32, Shape{1}).fill_constant(0);
  Scaling::measure(exec_, x, amax);
  EXPECT_EQ(amax.at(0), 3.5);
  amax.set(0, 7);  // another rank's part is larger
  Scaling::measure(exec_, x, amax);
  EXPECT_EQ(amax.at(0), 7);
  scaling.quantize(exec_, 1, x, {.codes = codes, .scales = scales, .amax = amax});
  EXPECT_EQ(scales.at(0), 1.0 / 64);
  EXPECT_EQ(codes.at(0), -224);
  EXPECT_TRUE(scaling.staged().absent());
  EXPECT_TRUE(scaling.history().absent());
  options.power_of_two = true;
  Scaling powers = make(options);
  amax.set(0, 5);  // 448 / 5 is 89.6
  powers.quantize(exec_, 0, x, {.codes = codes, .scales = scales, .amax = amax});
  EXPECT_EQ(scales.at(0), 1.0 / 64);
}

TEST_F(ScalingTest, UnscaledNumbersAreCodesAsTheyAre) {
  Scaling scaling = make(ScalingOptions::of(ScalingPolicy::unscaled), Operand::output_gradient);
  EXPECT_EQ(scaling.code_type(), DType::f8_e5m2);
  EXPECT_TRUE(scaling.staged().absent());
  EXPECT_TRUE(scaling.history().absent());
  TestTensor x(DType::bf16, Shape{1, 4});
  x.fill([](int64_t i) { return std::array{3.0, 1e6, -0.25, 0x1p-20}[static_cast<size_t>(i)]; });
  TestTensor codes(DType::f8_e5m2, x.shape()), scales(DType::f32, Shape{1});
  for (int step = 0; step < 2; ++step) {
    scaling.quantize(exec_, 1, x, {.codes = codes, .scales = scales});
    EXPECT_EQ(scales.at(0), 1);
    EXPECT_EQ(codes.at(0), 3);
    EXPECT_EQ(codes.at(1), 57344);  // saturates
    EXPECT_EQ(codes.at(2), -0.25);
    EXPECT_EQ(codes.at(3), 0);  // too small
    scaling.update(exec_);
    scaling.forget(exec_, 1);
    scaling.restored();
  }
}

TEST_F(ScalingTest, BlocksAreAlongTheSumAndSquareInWeights) {
  const Shape shape{256, 384};
  const auto shape_of = [&](ScalingPolicy policy, Operand operand, Along along) {
    return make(ScalingOptions::of(policy), operand).scale_shape(shape, along);
  };
  const auto block = ScalingPolicy::block, mx = ScalingPolicy::mx;
  EXPECT_EQ(shape_of(block, Operand::input, Along::columns), (Shape{256, 3}));
  EXPECT_EQ(shape_of(block, Operand::input, Along::rows), (Shape{2, 384}));
  EXPECT_EQ(shape_of(block, Operand::weight, Along::rows), (Shape{2, 3}));
  EXPECT_EQ(shape_of(mx, Operand::weight, Along::columns), (Shape{256, 12}));
  EXPECT_EQ(shape_of(mx, Operand::output_gradient, Along::rows), (Shape{8, 384}));
  EXPECT_EQ(shape_of(ScalingPolicy::delayed, Operand::input, Along::rows), Shape{1});
}

TEST_F(ScalingTest, BlocksKeepWhatOneScaleWouldFlush) {
  // Half of each row is 2^20 times larger.
  TestTensor x(DType::f32, Shape{4, 256});
  x.fill([](int64_t i) { return (1 + static_cast<double>(i % 5)) * (i % 256 < 128 ? 1 : 0x1p20); });
  for (const auto policy : {ScalingPolicy::block, ScalingPolicy::mx, ScalingPolicy::current}) {
    Scaling scaling = make(ScalingOptions::of(policy));
    TestTensor codes(DType::f8_e4m3, x.shape());
    TestTensor scales(scaling.scale_type(), scaling.scale_shape(x.shape(), Along::columns));
    TestTensor amax = TestTensor(DType::f32, Shape{1}).fill_constant(0);
    Scaling::measure(exec_, x, amax);
    scaling.quantize(exec_, 0, x, {.codes = codes, .scales = scales, .amax = amax});
    int64_t flushed = 0;
    for (int64_t i = 0; i < x.size(); ++i) flushed += codes.at(i) == 0 ? 1 : 0;
    EXPECT_EQ(flushed, policy == ScalingPolicy::current ? x.size() / 2 : 0);
  }
}

TEST_F(ScalingTest, RoundedNumbersAreCodesTimesScales) {
  TestTensor x(DType::bf16, Shape{70, 160});
  x.fill_normal(1);
  for (const auto policy : {ScalingPolicy::block, ScalingPolicy::mx}) {
    for (const auto operand : {Operand::input, Operand::weight}) {
      for (const auto along : {Along::columns, Along::rows}) {
        Scaling scaling = make(ScalingOptions::of(policy), operand);
        TestTensor codes(DType::f8_e4m3, x.shape()), numbers(DType::bf16, x.shape());
        TestTensor scales(scaling.scale_type(), scaling.scale_shape(x.shape(), along));
        scaling.quantize(exec_, 0, x, {.codes = codes, .scales = scales}, Scaling::Record::nothing,
                         along);
        scaling.round(exec_, x, numbers, along);
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t row = i / 160, column = i % 160;
          const int64_t side = policy == ScalingPolicy::mx ? 32 : 128;
          const int64_t top = scales.rows() == x.rows() ? row : row / side;
          const int64_t left = scales.columns() == x.columns() ? column : column / side;
          ASSERT_EQ(numbers.at(i), codes.at(i) * scales.at(top, left));
        }
      }
    }
  }
}

TEST_F(ScalingTest, WhatACheckpointBringsIsJudged) {
  ScalingOptions options;
  options.history = 3;
  Scaling scaling = make(options);
  float* const scales = scaling.scale().as<float>();
  scales[1] = 0.25f;
  scaling.restored();
  const TestTensor x = filled(1);
  TestTensor codes(DType::f8_e4m3, x.shape()), inverse(DType::f32, Shape{1});
  scaling.quantize(exec_, 1, x, {.codes = codes, .scales = inverse});
  EXPECT_EQ(inverse.at(0), 4);
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY}) {
    scales[1] = bad;
    EXPECT_THROW(scaling.restored(), IntegrityError) << bad;
  }
  scales[1] = 1;
  scaling.history().as<float>()[2] = NAN;
  EXPECT_THROW(scaling.restored(), IntegrityError);
}

TEST_F(ScalingTest, RefusesOptionsThatMakeNoSense) {
  ScalingOptions none;
  none.history = 0;
  EXPECT_THROW(make(none), InternalError);
  ScalingOptions negative;
  negative.margin = -1;
  EXPECT_THROW(make(negative), InternalError);
}

}  // namespace
}  // namespace megalith::precision
