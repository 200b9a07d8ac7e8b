// SPDX-License-Identifier: Apache-2.0
// Products with bottlenecks behind them: gradients against finite differences in double precision.
// engine/ has whole models, under layouts.
#include "bottlenecks/trained_bottlenecks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/linear.h"
#include "testing/layer_case.h"

namespace megalith::bottlenecks {
namespace {

using megalith::testing::LayerCase;
using megalith::testing::product_faults;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kF = 24, kSize = 5;

TEST(TrainedBottlenecks, GradientsAreFiniteDifferences) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.factors = bottlenecks_of(kSize, settings.masters);
  LayerCase c(settings);
  const layers::RowLinear layer(c.parameters(), "down", {kF, kH, false}, c.partition());
  c.place();
  ASSERT_NE(c.parameters().find("down.adapter_up_bias"), nullptr);
  EXPECT_THAT(product_faults(c, layer, kF, kH), IsEmpty());
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
