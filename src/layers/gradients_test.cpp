// SPDX-License-Identifier: Apache-2.0
// Every layer against finite differences in double precision: the scalar is <c, y> for a random c,
// so that backward is given dy = c, and the gradients of all inputs and parameters are probed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/block.h"
#include "layers/embedding.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kF = 24;

TEST(LayerGradients, Embedding) {
  const NormSpec norm{.eps = 1e-3};
  const EmbeddingSpec kinds[] = {
      {.scale = 1.5},
      {.position = PositionKind::none, .norm = norm},
      {.position_offset = 2, .token_types = 3, .scale = 0.5, .norm = norm},
      {.token_types = 2, .norm = norm, .width = 6},
      {.width = 20},
      {.position = PositionKind::sinusoidal, .scale = 1.5},
      {.position = PositionKind::sinusoidal, .token_types = 2, .norm = norm, .width = 6},
  };
  for (const EmbeddingSpec& spec : kinds) {
    for (const bool tied : {false, true}) {
      engine::Settings settings = tiny_f64_settings();
      settings.model.embedding.token_types = spec.token_types;
      LayerCase c(settings);
      const int64_t width = spec.width != 0 ? spec.width : kH;
      const Embedding layer(c.parameters(), {spec, {20, 128, width, 0.02, tied}, kH, 8},
                            c.partition());
      c.place();
      Context context = c.context();
      const auto y = c.tensor(Shape{c.tokens(), kH}), dy = c.random(y.view.shape(), "dy");
      const auto used_up = c.random(y.view.shape(), "dy");
      EmbeddingSaved saved;
      layer.forward(context, c.batch(), y, &saved);
      layer.backward(context, c.batch(), used_up, saved);
      EXPECT_THAT(c.parameter_faults([&] {
        layer.forward(context, c.batch(), y, nullptr);
        return dot(y, dy);
      }),
                  IsEmpty());
    }
  }
}

TEST(Embedding, IsTheSumOfItsRows) {
  const EmbeddingSpec spec{.position_offset = 2, .token_types = 3};
  engine::Settings settings = tiny_f64_settings();
  settings.model.embedding.token_types = spec.token_types;
  LayerCase c(settings);
  const Embedding layer(c.parameters(), {spec, {20, 128, kH}, kH, 8}, c.partition());
  c.place();
  Context context = c.context();
  context.dropout = 0;
  Batch batch = c.batch();
  std::vector<int32_t> types(static_cast<size_t>(c.tokens()));
  for (size_t t = 0; t < types.size(); ++t) types[t] = static_cast<int32_t>(t % 3);
  batch.type_T =
      ConstView(reinterpret_cast<const std::byte*>(types.data()), DType::i32, Shape{c.tokens()});
  batch.own.type_T = batch.type_T;
  const auto y = c.tensor(Shape{c.tokens(), kH});
  layer.forward(context, batch, y, nullptr);
  const auto row = [&](const char* name, int64_t number) {
    return c.parameters().find(name)->master().row<double>(number);
  };
  for (int64_t t = 0; t < c.tokens(); ++t) {
    for (int64_t i = 0; i < kH; ++i) {
      const double sum =
          row("embedding.weight", batch.ids_T.as<int32_t>()[t])[i] +
          row("token_type.weight", types[static_cast<size_t>(t)])[i] +
          row("position.weight", spec.position_offset + batch.position_T.as<int32_t>()[t])[i];
      EXPECT_DOUBLE_EQ(y.view.row<double>(t)[i], sum) << t << " " << i;
    }
  }
}

TEST(Embedding, AddsSinesAndCosinesTimesTheirScale) {
  LayerCase c(tiny_f64_settings());
  const Embedding layer(c.parameters(),
                        {{.position = PositionKind::sinusoidal}, {20, 128, kH}, kH, 8},
                        c.partition());
  EXPECT_EQ(c.parameters().find("position.scale")->declaration().init.value, 0.25);
  c.place();
  Context context = c.context();
  context.dropout = 0;
  const auto y = c.tensor(Shape{c.tokens(), kH});
  layer.forward(context, c.batch(), y, nullptr);
  const double scale = *c.parameters().find("position.scale")->master().as<double>();
  for (int64_t t = 0; t < c.tokens(); ++t) {
    const double* const row = c.parameters()
                                  .find("embedding.weight")
                                  ->master()
                                  .row<double>(c.batch().ids_T.as<int32_t>()[t]);
    for (int64_t i = 0; i < kH; ++i) {
      const double angle = c.batch().position_T.as<int32_t>()[t] *
                           std::pow(10000.0, -2.0 * static_cast<double>(i / 2) / kH);
      const double sum = row[i] + scale * (i % 2 == 0 ? std::sin(angle) : std::cos(angle));
      // Frequencies are rounded to f32.
      EXPECT_NEAR(y.view.row<double>(t)[i], sum, std::abs(scale * angle) * 0x1p-24)
          << t << " " << i;
    }
  }
}

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

void check_column_linear(bool bias) {
  LayerCase c(tiny_f64_settings());
  const ColumnLinear layer(c.parameters(), "up", {kH, kF, bias}, c.partition());
  c.place();
  Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), kH}, "x"), dx = c.tensor(Shape{c.tokens(), kH});
  const auto y = c.tensor(Shape{c.tokens(), kF}), dy = c.random(y.view.shape(), "dy");
  layer.backward(context, c.batch(), dy, x, dx);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y);
    return dot(y, dy);
  };
  EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

void check_row_linear(bool bias) {
  LayerCase c(tiny_f64_settings());
  const RowLinear layer(c.parameters(), "down", {kF, kH, bias}, c.partition());
  c.place();
  Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), kF}, "x"), dx = c.tensor(Shape{c.tokens(), kF});
  const auto y = c.tensor(Shape{c.tokens(), kH}), dy = c.random(y.view.shape(), "dy");
  layer.backward(context, c.batch(), dy, x, dx);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y);
    return dot(y, dy);
  };
  EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

TEST(LayerGradients, LinearWithAndWithoutBias) {
  for (const bool bias : {true, false}) {
    check_column_linear(bias);
    check_row_linear(bias);
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
      check_block(spec, mode, fmt::format("{} {}", config::name_of(place), static_cast<int>(mode)));
    }
    spec.norm_place = NormPlace::pre;
    spec.parallel = true;
    check_block(spec, mode, "parallel");
    spec.parallel = false;
  }
}

}  // namespace
}  // namespace megalith::layers
