// SPDX-License-Identifier: Apache-2.0
#include "sizing/shape_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace megalith::sizing {
namespace {

TEST(ShapeRule, SizesAreExact) {
  // 12 L h^2 + 13 L h + (v + s) h and the last norm.
  const SizedModel model = size_of({}, {96, 12288, 96});
  EXPECT_EQ(model.parameters,
            12LL * 96 * 12288 * 12288 + 13LL * 96 * 12288 + (51200 + 2048) * 12288LL + 2 * 12288);
  EXPECT_NEAR(model.flops_per_token, 6.0 * 174.6e9, 0.05 * 6 * 174.6e9);
}

TEST(ShapeRule, UsesTheBudgetAndKeepsToTheRule) {
  for (const char* family : {"gpt2", "llama", "bert", "t5"}) {
    Task task{.family = family, .vocab = 32000, .sequence = 512};
    for (const double parameters : {3e7, 1.2e8, 1.3e9, 7e9, 7e10, 1e12}) {
      const SizedModel model = best_shape(task, Cost::parameters, parameters);
      const SizedModel exact = size_of(task, model.shape);
      EXPECT_EQ(exact.parameters, model.parameters) << family;
      EXPECT_DOUBLE_EQ(exact.flops_per_token, model.flops_per_token) << family;
      EXPECT_LE(static_cast<double>(model.parameters), parameters) << family;
      EXPECT_GE(static_cast<double>(model.parameters), 0.85 * parameters) << family << parameters;
      const Shape& shape = model.shape;
      EXPECT_EQ(shape.hidden % shape.heads, 0);
      EXPECT_EQ(shape.heads % (shape.hidden < 2048 ? 4 : 8), 0) << shape.hidden;
      EXPECT_EQ(shape.layers % (shape.hidden < 2048 ? 1 : shape.hidden < 8192 ? 2 : 8), 0);
    }
  }
}

TEST(ShapeRule, DepthFitsWidth) {
  EXPECT_NEAR(fitting_layers(12288), 79, 1);  // Levine et al. 2020: 80 for 175 billion parameters
  for (const double parameters : {1e9, 1e10, 1e11}) {
    const SizedModel model = best_shape({}, Cost::parameters, parameters);
    const double ratio = static_cast<double>(model.shape.layers) /
                         fitting_layers(static_cast<double>(model.shape.hidden));
    EXPECT_NEAR(std::log(ratio), 0, 0.3) << parameters;
  }
}

TEST(ShapeRule, RecomputationLeavesLessForTheModel) {
  Task none, full;
  full.recompute = layers::Recompute::full;
  const Shape shape{96, 12288, 96};
  // A third more but for the head, which is not computed again.
  EXPECT_NEAR(size_of(full, shape).flops_per_token / size_of(none, shape).flops_per_token, 4.0 / 3,
              0.002);
  EXPECT_LT(best_shape(full, Cost::flops_per_token, 1e12).parameters,
            best_shape(none, Cost::flops_per_token, 1e12).parameters);
}

TEST(ShapeRule, NothingIsBelowAlmostNothing) {
  EXPECT_EQ(best_shape({}, Cost::parameters, 1000).shape.layers, 0);
  EXPECT_THROW(objective_of("gpt5"), UserError);
  EXPECT_EQ(objective_of("gpt2"), "causal");
  EXPECT_EQ(objective_of("roberta"), "masked");
  EXPECT_EQ(objective_of("t5"), "spans");
}

}  // namespace
}  // namespace megalith::sizing
