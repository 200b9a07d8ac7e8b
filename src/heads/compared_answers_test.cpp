// SPDX-License-Identifier: Apache-2.0
// The losses of pairs of answers against finite differences in double precision.
#include "heads/compared_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heads/vocabulary_head.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using ::testing::IsEmpty;

constexpr int64_t kH = 16;
constexpr int64_t kNumbers = 1 + std::ssize(kToldOfPairs);

/// scale * sum over pairs of weight * loss.
double pairs_value(LayerCase& c, Context& context, const VocabularyHead& layer, ConstView x) {
  const ConstView weight_P = c.batch().loss_weight_T;
  const int64_t pairs = weight_P.size(0);
  const auto values = c.tensor(Shape{kNumbers * pairs});
  layer.forward(context, c.batch(), x, values);
  double sum = 0;
  for (int64_t p = 0; p < pairs; ++p)
    sum += static_cast<double>(weight_P.as<float>()[p]) * values.view.as<double>()[p];
  return static_cast<double>(c.batch().loss_scale) * sum;
}

TEST(ComparedAnswers, GradientsAreFiniteDifferences) {
  for (const double smoothing : {0.0, 0.2}) {
    for (const int64_t predicted : {0, 6}) {
      engine::Settings settings = megalith::testing::tiny_f64_settings();
      settings.preferences = PreferenceLoss{0.4, smoothing};
      settings.predicted_per_sample = predicted;
      LayerCase c(settings);
      const VocabularyHead layer(c.parameters(), {{.softcap = 1.5}, {}, kH, {20, 128, kH}},
                                 c.partition());
      c.place();
      Context context = c.context();
      const Shape shape{c.tokens(), kH};
      const auto x = c.random(shape, "x"), dx = c.tensor(shape),
                 values = c.tensor(Shape{kNumbers * c.batch().loss_weight_T.size(0)});
      // No z-loss is added where tokens weigh less than nothing.
      layer.forward_backward(context, c.batch(), x, 0.5f, values, dx);
      const auto value = [&] { return pairs_value(c, context, layer, x); };
      EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
      EXPECT_THAT(c.parameter_faults(value), IsEmpty());
      // What nobody learns sends nothing back.
      for (int64_t t = 0; t < c.tokens(); ++t) {
        const bool learned = c.batch().targets_T.as<int32_t>()[t] >= 0;
        EXPECT_EQ(dot(dx.view.rows(t, 1), dx.view.rows(t, 1)) != 0, learned) << t;
      }
    }
  }
}

}  // namespace
}  // namespace megalith::layers
