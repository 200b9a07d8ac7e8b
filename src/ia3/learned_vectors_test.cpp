// SPDX-License-Identifier: Apache-2.0
// Products with learned vectors: gradients against finite differences in double precision, values
// against the formula, and that what no module has stays as it is. engine/ has whole
// models, under layouts.
#include "ia3/learned_vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/linear.h"
#include "layers/mlp.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::ia3 {
namespace {

using layers::ColumnLinear;
using layers::Context;
using layers::RowLinear;
using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using megalith::testing::product_faults;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kF = 24;

engine::Settings with_vectors(engine::Settings settings, std::vector<bool> outputs = {}) {
  auto products = std::make_shared<MultipliedProducts>();
  products->emplace("up.weight", MultipliedProduct{false, std::move(outputs)});
  products->emplace("down.weight", MultipliedProduct{true, {}});
  settings.factors = vectors_of(products, settings.masters);
  return settings;
}

template <class Linear>
void check_gradients(const char* name, int64_t inputs, int64_t outputs, bool bias) {
  LayerCase c(with_vectors(tiny_f64_settings()));
  const Linear layer(c.parameters(), name, {inputs, outputs, bias}, c.partition());
  c.place();
  ASSERT_NE(c.parameters().find(std::string(name) + ".ia3_l"), nullptr);
  EXPECT_THAT(product_faults(c, layer, inputs, outputs), IsEmpty()) << name << bias;
}

TEST(LearnedVectors, GradientsAreFiniteDifferences) {
  for (const bool bias : {true, false}) {
    check_gradients<ColumnLinear>("up", kH, kF, bias);
    check_gradients<RowLinear>("down", kF, kH, bias);
  }
}

/// Between the two products of an MLP the vector of inputs comes behind the activation.
TEST(LearnedVectors, GradientsOfAnMlpAreFiniteDifferences) {
  for (const bool gated : {true, false}) {
    for (const bool keep : {true, false}) {
      engine::Settings settings = tiny_f64_settings();
      auto products = std::make_shared<MultipliedProducts>();
      products->emplace("mlp.up.weight", MultipliedProduct{false, {}});
      products->emplace("mlp.down.weight", MultipliedProduct{true, {}});
      settings.factors = vectors_of(products, settings.masters);
      LayerCase c(settings);
      const auto activation = gated ? layers::Activation::silu : layers::Activation::gelu_tanh;
      const layers::Mlp layer(c.parameters(), "mlp", {{kF, gated, activation, keep}, kH},
                              c.partition());
      c.place();
      ASSERT_NE(c.parameters().find("mlp.down.ia3_l"), nullptr);
      Context context = c.context();
      const Shape shape{c.tokens(), kH};
      const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy"),
                 dx = c.tensor(shape);
      layers::MlpSaved saved;
      layer.forward(context, c.batch(), x, y, &saved, keep);
      layer.backward(context, c.batch(), dy, x, saved, dx);
      const auto value = [&] {
        layer.forward(context, c.batch(), x, y, nullptr, false);
        return dot(y, dy);
      };
      EXPECT_THAT(gradient_faults("x", x, dx, value), IsEmpty()) << gated << keep;
      EXPECT_THAT(c.parameter_faults(value), IsEmpty()) << gated << keep;
    }
  }
}

TEST(LearnedVectors, MultiplyOutputsWithTheirBias) {
  LayerCase c(with_vectors(tiny_f64_settings()));
  const ColumnLinear layer(c.parameters(), "up", {kH, kF, true}, c.partition());
  c.place();
  Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), kH}, "x"), y = c.tensor(Shape{c.tokens(), kF});
  layer.forward(context, c.batch(), x, y);
  const View w = c.parameters().find("up.weight")->master(),
             b = c.parameters().find("up.bias")->master(),
             l = c.parameters().find("up.ia3_l")->master();
  for (int64_t o = 0; o < kF; ++o) {
    double z = b.as<double>()[o];
    for (int64_t i = 0; i < kH; ++i) z += x.view.row<double>(0)[i] * w.row<double>(o)[i];
    EXPECT_NEAR(y.view.row<double>(0)[o], z * l.as<double>()[o], 1e-13);
  }
}

/// The gradient of the vector of "up" when its outputs are these.
std::vector<double> gradient_of(std::vector<bool> outputs) {
  LayerCase c(with_vectors(tiny_f64_settings(), std::move(outputs)));
  const ColumnLinear layer(c.parameters(), "up", {kH, kF, false}, c.partition());
  c.place();
  Context context = c.context();
  const auto x = c.random(Shape{c.tokens(), kH}, "x"), dx = c.tensor(x.view.shape());
  const auto dy = c.random(Shape{c.tokens(), kF}, "dy");
  layer.backward(context, c.batch(), dy, x, dx);
  const auto* values = c.parameters().find("up.ia3_l")->gradient_sum().as<double>();
  return {values, values + kF};
}

// Modules side by side, in turns, and one that begins in the middle of a turn.
TEST(LearnedVectors, OutputsOfOtherModulesHaveNoGradient) {
  const std::vector<double> all = gradient_of({});
  const auto pattern = [](auto has) {
    std::vector<bool> outputs;
    for (int64_t o = 0; o < kF; ++o) outputs.push_back(has(o));
    return outputs;
  };
  for (const std::vector<bool>& outputs : {pattern([](int64_t o) { return o >= 8 && o < 16; }),
                                           pattern([](int64_t o) { return o % 2 == 1; }),
                                           pattern([](int64_t o) { return o % 2 == 0; }),
                                           pattern([](int64_t o) { return o % 2 == 1 || o > 20; }),
                                           pattern([](int64_t o) { return o % 6 == 0; })}) {
    const std::vector<double> own = gradient_of(outputs);
    for (size_t o = 0; o < own.size(); ++o) EXPECT_EQ(own[o], outputs[o] ? all[o] : 0) << o;
  }
}

}  // namespace
}  // namespace megalith::ia3
