// SPDX-License-Identifier: Apache-2.0
// Products with bottlenecks behind them: gradients against finite differences in double precision.
// engine/ has whole models, under layouts.
#include "bottlenecks/trained_bottlenecks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/linear.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::bottlenecks {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kF = 24, kSize = 5;

TEST(TrainedBottlenecks, GradientsAreFiniteDifferences) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.factors = bottlenecks_of(kSize, settings.masters);
  LayerCase c(settings);
  const layers::RowLinear layer(c.parameters(), "down", {kF, kH, false}, c.partition());
  c.place();
  ASSERT_NE(c.parameters().find("down.adapter_up_bias"), nullptr);
  layers::Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), kF}, "x"), dx = c.tensor(x.view.shape());
  const auto y = c.tensor(Shape{c.tokens(), kH}), dy = c.random(y.view.shape(), "dy");
  layer.backward(context, c.batch(), dy, x, dx);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y);
    return dot(y, dy);
  };
  EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

TEST(TrainedBottlenecks, StandBehindRowProductsAlone) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.factors = bottlenecks_of(kSize, settings.masters);
  LayerCase c(settings);
  const layers::ColumnLinear layer(c.parameters(), "up", {kH, kF, true}, c.partition());
  c.place();
  EXPECT_EQ(c.parameters().find("up.adapter_down"), nullptr);
}

}  // namespace
}  // namespace megalith::bottlenecks
