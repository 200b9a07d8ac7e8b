// SPDX-License-Identifier: Apache-2.0
// Gradients of tables against finite differences in double precision, values against the formulas.
#include "embeddings/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16;

TEST(Embedding, GradientsAreFiniteDifferences) {
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

}  // namespace
}  // namespace megalith::layers
