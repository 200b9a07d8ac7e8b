// SPDX-License-Identifier: Apache-2.0
// Which products an adapter of learned vectors multiplies, and at which side: expected values are
// what peft 0.21 does with the same configuration.
#include "adapters/ia3.h"

#include <gtest/gtest.h>

#include "grammar_automata/code_automaton.h"

namespace megalith::adapters {
namespace {

// _check_target_module_feedforward: the end of a name counts wherever it begins, other than that of
// a target.
TEST(Ia3, InputsAreThoseOfNamesThatEndSo) {
  Ia3 ia3;
  ia3.targets = ModuleNames::listed({"key", "value", "output.dense"});
  ia3.feedforward_ends = {"put.dense"};
  EXPECT_TRUE(ia3.adapts("bert.encoder.layer.0.attention.self.key"));
  EXPECT_TRUE(ia3.adapts("bert.encoder.layer.0.attention.output.dense"));
  EXPECT_FALSE(ia3.adapts("bert.encoder.layer.0.intermediate.dense"));
  EXPECT_TRUE(ia3.of_inputs("bert.encoder.layer.0.output.dense"));
  EXPECT_TRUE(ia3.of_inputs("bert.encoder.layer.0.attention.output.dense"));
  EXPECT_FALSE(ia3.of_inputs("bert.encoder.layer.0.attention.self.key"));
  ia3.excluded = ModuleNames::listed({"value"});
  EXPECT_FALSE(ia3.adapts("bert.encoder.layer.0.attention.self.value"));
}

TEST(Ia3, AnExpressionMatchesWholeNames) {
  grammars::WorkBudget budget;
  Ia3 ia3;
  ia3.targets = ModuleNames::all();
  ia3.feedforward = NamePattern{R"(.*\.mlp\.down_proj)", "test", budget};
  EXPECT_TRUE(ia3.of_inputs("model.layers.0.mlp.down_proj"));
  EXPECT_FALSE(ia3.of_inputs("model.layers.0.mlp.down_proj.x"));
  EXPECT_FALSE(ia3.of_inputs("mlp.up_proj"));
}

}  // namespace
}  // namespace megalith::adapters
