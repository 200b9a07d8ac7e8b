// SPDX-License-Identifier: Apache-2.0
// Two heads on one stack: gradients of the sum of both losses, each with its own weight, against
// finite differences in double precision.
#include "heads/pretraining_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kH = 16;

HeadSpec pretraining_spec() {
  return {.kind = HeadKind::pretraining,
          .norm = false,
          .transform = TransformSpec{},
          .tied = false,
          .bias = true};
}

engine::Settings pretraining_case(int64_t predicted_per_sample = 0) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.model.head = pretraining_spec();
  settings.predicted_per_sample = predicted_per_sample;
  return settings;
}

HeadConfig pretraining_config() { return {pretraining_spec(), {}, kH, {20, 128, kH}}; }

double both_losses(LayerCase& c, Context& context, const Head& head, ConstView x) {
  const int64_t tokens = c.tokens(), samples = c.batch().num_samples;
  const auto loss = c.tensor(Shape{tokens + samples});
  head.forward(context, c.batch(), x, loss);
  double of_tokens = 0, of_pairs = 0;
  for (int64_t t = 0; t < tokens; ++t)
    of_tokens +=
        static_cast<double>(c.batch().loss_weight_T.as<float>()[t]) * loss.view.as<double>()[t];
  for (int64_t s = 0; s < samples; ++s) of_pairs += loss.view.as<double>()[tokens + s];
  return static_cast<double>(c.batch().loss_scale) * of_tokens +
         static_cast<double>(c.batch().pairs.loss_scale) * of_pairs;
}

TEST(PretrainingHead, GradientsAreThoseOfBothLosses) {
  LayerCase c(pretraining_case(), 4);
  const auto head = make_head(c.parameters(), pretraining_config(), c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), kH};
  const auto x = c.random(shape, "x"), dx = c.tensor(shape),
             loss = c.tensor(Shape{c.tokens() + c.batch().num_samples}),
             alone = c.tensor(Shape{c.tokens() + c.batch().num_samples});
  head->forward_backward(context, c.batch(), x, 0, loss, dx);
  head->forward(context, c.batch(), x, alone);
  for (int64_t u = 0; u < loss.view.num_elements(); ++u)
    EXPECT_EQ(loss.view.as<double>()[u], alone.view.as<double>()[u]) << u;
  const auto value = [&] { return both_losses(c, context, *head, x); };
  EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
}

// Alone, each head gives what it gives here.
TEST(PretrainingHead, LossesAreThoseOfTheTwoHeads) {
  LayerCase c(pretraining_case(), 4);
  const auto head = make_head(c.parameters(), pretraining_config(), c.partition());
  c.place();
  Context context = c.context();
  const int64_t tokens = c.tokens(), samples = c.batch().num_samples;
  const auto x = c.random(Shape{tokens, kH}, "x"), loss = c.tensor(Shape{tokens + samples});
  head->forward(context, c.batch(), x, loss);
  // A pair's loss reads the first row of its sample alone, and a token's its own.
  const int64_t length = tokens / samples;
  for (int64_t row = 0; row < tokens; ++row) {
    const double before = x.view.row<double>(row)[3];
    x.view.row<double>(row)[3] += 0.5;
    const auto other = c.tensor(Shape{tokens + samples});
    head->forward(context, c.batch(), x, other);
    for (int64_t u = 0; u < tokens + samples; ++u) {
      const bool moves = u == row || u == tokens + row / length;
      const bool is_read = u == row || row % length == 0;
      EXPECT_EQ(other.view.as<double>()[u] != loss.view.as<double>()[u], moves && is_read)
          << row << ", " << u;
    }
    x.view.row<double>(row)[3] = before;
  }
}

TEST(PretrainingHead, TextsAreScoredWithoutPairs) {
  LayerCase c(pretraining_case(), 4);
  const auto head = make_head(c.parameters(), pretraining_config(), c.partition());
  c.place();
  Context context = c.context();
  Batch text = c.batch();
  text.pairs = {};
  const auto x = c.random(Shape{c.tokens(), kH}, "x"), alone = c.tensor(Shape{c.tokens()}),
             both = c.tensor(Shape{c.tokens() + c.batch().num_samples});
  head->forward(context, text, x, alone);
  head->forward(context, c.batch(), x, both);
  for (int64_t t = 0; t < c.tokens(); ++t)
    EXPECT_EQ(alone.view.as<double>()[t], both.view.as<double>()[t]) << t;
}

TEST(PretrainingHead, ParametersAndFaults) {
  LayerCase c(pretraining_case(), 1);
  make_head(c.parameters(), pretraining_config(), c.partition());
  int64_t count = 0;
  std::vector<std::string> names;
  for (const auto& parameter : c.parameters().all()) {
    names.push_back(parameter.name());
    count += parameter.declaration().shape.num_elements();
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"head.weight", "head.transform.weight",
                                              "head.pair.dense.weight", "head.pair.dense.bias",
                                              "head.pair.output.weight", "head.pair.output.bias"}));
  const int64_t padding = (128 - 20) * (kH + 1);
  EXPECT_EQ(count - padding,
            head_type(HeadKind::pretraining).num_parameters(pretraining_spec(), kH, kH, 20));
  HeadSpec normed = pretraining_spec();
  normed.norm = true;
  EXPECT_THAT(head_type(HeadKind::pretraining).fault(normed), HasSubstr("head.norm"));
  EXPECT_EQ(head_type(HeadKind::pretraining).fault(pretraining_spec()), "");
}

}  // namespace
}  // namespace megalith::layers
