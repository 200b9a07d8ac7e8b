// SPDX-License-Identifier: Apache-2.0
// Every layer against finite differences in double precision: the scalar is <c, y> for a random c,
// so that backward is given dy = c, and the gradients of all inputs and parameters are probed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/block.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using megalith::testing::product_faults;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kF = 24;

void check_norm(const NormSpec& spec) {
  LayerCase c(tiny_f64_settings());
  const Norm layer(c.parameters(), "norm", kH, spec, c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), kH};
  const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy"),
             dx = c.tensor(shape);
  const auto past = c.random(shape, "residual");
  NormSaved saved;
  layer.forward(context, x, y, &saved);
  layer.backward(context, c.batch(), {dy, past, dx}, x, saved);
  const auto value = [&] {
    layer.forward(context, x, y, nullptr);
    return dot(y, dy) + dot(x, past);
  };
  EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

TEST(LayerGradients, NormWithResidual) {
  check_norm({});
  check_norm({.bias = false});
  check_norm({NormKind::rms, 1e-6, 1, false});
}

TEST(LayerGradients, LinearWithAndWithoutBias) {
  for (const bool bias : {true, false}) {
    LayerCase up(tiny_f64_settings()), down(tiny_f64_settings());
    const ColumnLinear column(up.parameters(), "up", {kH, kF, bias}, up.partition());
    const RowLinear row(down.parameters(), "down", {kF, kH, bias}, down.partition());
    up.place();
    down.place();
    EXPECT_THAT(product_faults(up, column, kH, kF), IsEmpty());
    EXPECT_THAT(product_faults(down, row, kF, kH), IsEmpty());
  }
}

TEST(LayerGradients, Mlp) {
  for (const auto activation : kernels::kActivations) {
    for (const bool keep : {true, false}) {
      for (const bool gated : {true, false}) {
        // The bound on rounding is made of the value, which happens to lie near 0 for a gated quick
        // GELU of these inputs; kernels/elementwise/gated_test.cpp has it.
        if (gated ? activation == Activation::gelu_quick : activation == Activation::none) continue;
        LayerCase c(tiny_f64_settings());
        const Mlp layer(c.parameters(), "mlp", {{kF, gated, activation, keep}, kH}, c.partition());
        c.place();
        Context context = c.context();
        const Shape shape{c.tokens(), kH};
        const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy"),
                   dx = c.tensor(shape);
        MlpSaved saved;
        layer.forward(context, c.batch(), x, y, &saved, keep);
        EXPECT_EQ(saved.activated_TF.view.absent(), !keep);
        layer.backward(context, c.batch(), dy, x, saved, dx);
        const auto value = [&] {
          layer.forward(context, c.batch(), x, y, nullptr, false);
          return dot(y, dy);
        };
        EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty())
            << kernels::name_of(activation) << gated;
        EXPECT_THAT(c.parameter_faults(value), IsEmpty()) << kernels::name_of(activation) << gated;
      }
    }
  }
}

void check_block(const LayerSpec& spec, Recompute mode, const std::string& what) {
  SCOPED_TRACE(what);
  LayerCase c(tiny_f64_settings());
  const Block layer(c.parameters(), {1, 0}, {spec, kH, 8}, c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), kH};
  const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy"),
             dx = c.tensor(shape);
  BlockSaved saved;
  layer.forward(context, c.batch(), x, y, &saved, mode);
  layer.backward(context, c.batch(), {dy, dx}, x, saved, mode);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y, nullptr, Recompute::none);
    return dot(y, dy);
  };
  EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

LayerSpec small_layer() {
  LayerSpec spec;
  spec.attention.heads = 4;
  spec.attention.kv_heads = 2;
  spec.attention.head_dim = 4;
  spec.mlp.ffn = kF;
  return spec;
}

TEST(LayerGradients, BlockWithDropoutInEveryRecomputeMode) {
  for (const auto mode : {Recompute::none, Recompute::selective, Recompute::full})
    check_block(small_layer(), mode, fmt::format("{}", static_cast<int>(mode)));
}

TEST(LayerGradients, BlocksWithNormsInEveryPlace) {
  LayerSpec spec = small_layer();
  spec.mlp = {.ffn = kF, .gated = true, .activation = Activation::silu, .bias = false};
  spec.norm = {NormKind::rms, 1e-5, 1, false};
  spec.residual_scale = 0.75;
  for (const auto mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const auto place : {NormPlace::pre, NormPlace::post, NormPlace::both, NormPlace::output}) {
      spec.norm_place = place;
      check_block(spec, mode,
                  fmt::format("{} {}", settings::name_of(place), static_cast<int>(mode)));
    }
    spec.norm_place = NormPlace::pre;
    spec.parallel = true;
    check_block(spec, mode, "parallel");
    spec.parallel = false;
  }
}

}  // namespace
}  // namespace megalith::layers
