// SPDX-License-Identifier: Apache-2.0
// The head of a language model against finite differences in double precision.
#include "heads/vocabulary_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16;

/// scale * sum over tokens of weight * (loss + z lse^2), with log-sum-exp worked out here from the
/// logits: forward never gives it.
double head_value(LayerCase& c, Context& context, const VocabularyHead& layer, ConstView x,
                  double z_loss) {
  const auto loss = c.tensor(Shape{c.tokens()}),
             logits = c.tensor(Shape{c.tokens(), layer.padded_vocab()});
  layer.forward(context, c.batch(), x, loss);
  layer.logits(context, x, logits);
  double sum = 0;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    const double weight = static_cast<double>(c.batch().loss_weight_T.as<float>()[t]);
    double exps = 0;
    for (int64_t v = 0; v < layer.vocab(); ++v) exps += std::exp(logits.view.row<double>(t)[v]);
    sum += weight * (loss.view.as<double>()[t] + z_loss * std::log(exps) * std::log(exps));
  }
  return static_cast<double>(c.batch().loss_scale) * sum;
}

TEST(VocabularyHead, GradientWithMaskedTokensAndZLoss) {
  const engine::Settings settings = tiny_f64_settings();
  for (const float z_loss : {0.0f, 0.0625f}) {
    LayerCase c(settings);
    const VocabularyHead layer(c.parameters(), {{}, {}, kH, {20, 128, kH}}, c.partition());
    c.place();
    Context context = c.context();
    const Shape shape{c.tokens(), kH};
    const auto x = c.random(shape, "x"), dx = c.tensor(shape), loss = c.tensor(Shape{c.tokens()});
    layer.forward_backward(context, c.batch(), x, z_loss, loss, dx);
    const auto value = [&] {
      return head_value(c, context, layer, x, static_cast<double>(z_loss));
    };
    EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
    EXPECT_THAT(c.parameter_faults(value), IsEmpty());
    // A token of weight 0 sends nothing back.
    for (int64_t t = 0; t < c.tokens(); ++t) {
      const bool masked = c.batch().loss_weight_T.as<float>()[t] == 0;
      EXPECT_EQ(dot(dx.view.rows(t, 1), dx.view.rows(t, 1)) == 0, masked) << t;
    }
    // Padding of the vocabulary takes no part.
    const View dw = c.parameters().find("head.weight")->gradient_sum();
    for (int64_t v = 20; v < 128; ++v) EXPECT_EQ(dot(dw.rows(v, 1), dw.rows(v, 1)), 0) << v;
  }
}

TEST(VocabularyHead, GradientOfEveryKind) {
  const TransformSpec transform{.norm = {.eps = 1e-3}};
  const HeadSpec kinds[] = {
      {.softcap = 1.5},
      {.scale = 0.3},
      {.softcap = 2, .scale = 0.7},
      {.norm = false},
      {.bias = true},
      {.norm = false, .transform = transform, .bias = true},
      {.transform = TransformSpec{.bias = false, .activation = Activation::silu}},
  };
  for (const HeadSpec& spec : kinds) {
    LayerCase c(tiny_f64_settings());
    const int64_t width = spec.transform ? 6 : kH;
    const VocabularyHead layer(c.parameters(), {spec, {}, kH, {20, 128, width}}, c.partition());
    c.place();
    Context context = c.context();
    const Shape shape{c.tokens(), kH};
    const auto x = c.random(shape, "x"), dx = c.tensor(shape), loss = c.tensor(Shape{c.tokens()});
    layer.forward_backward(context, c.batch(), x, 0.0625f, loss, dx);
    const auto value = [&] { return head_value(c, context, layer, x, 0.0625); };
    EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
    EXPECT_THAT(c.parameter_faults(value), IsEmpty());
  }
}

}  // namespace
}  // namespace megalith::layers
