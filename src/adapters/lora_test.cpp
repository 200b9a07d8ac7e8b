// SPDX-License-Identifier: Apache-2.0
// Which products an adapter adds to, and how much: expected values are what peft 0.21 does with the
// same configuration (check_target_module_exists, get_pattern_key).
#include "adapters/lora.h"

#include <gtest/gtest.h>

#include <cmath>

#include "grammar_automata/code_automaton.h"

namespace megalith::adapters {
namespace {

NamePattern pattern(std::string_view expression) {
  grammars::WorkBudget budget;
  return {expression, "test", budget};
}
NamePattern pattern_of_end(std::string_view expression) {
  grammars::WorkBudget budget;
  return NamePattern::of_end(expression, "test", budget);
}

TEST(Lora, NamesStandForTheEndsOfModules) {
  Lora lora;
  lora.targets = ModuleNames::listed({"q_proj", "mlp.up_proj", "model.layers.1.self_attn.o_proj"});
  EXPECT_TRUE(lora.adapts("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("q_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.0.self_attn.xq_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.3.mlp.up_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.3.up_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.1.self_attn.o_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.2.self_attn.o_proj"));
}

TEST(Lora, AnExpressionMatchesWholeNames) {
  Lora lora;
  lora.targets = ModuleNames::matching(pattern(R"(.*\.layers\.[02]\.self_attn\.(q|v)_proj)"));
  EXPECT_TRUE(lora.adapts("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.2.self_attn.v_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.0.self_attn.q_proj.more"));
  EXPECT_FALSE(lora.adapts("model.layers.0.self_attn.k_proj"));
}

TEST(Lora, LeavesOutWhatIsExcludedAndOtherLayers) {
  Lora lora;
  lora.targets = ModuleNames::all();
  lora.excluded = ModuleNames::listed({"k_proj"});
  EXPECT_FALSE(lora.adapts("model.layers.0.self_attn.k_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.0.self_attn.q_proj"));
  lora.excluded.reset();
  lora.targets = ModuleNames::listed({"q_proj", "model.layers.5.mlp.up_proj"});
  lora.layers = {0, 2};
  EXPECT_TRUE(lora.adapts("model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.12.self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.5.mlp.up_proj")) << "a whole name is no matter of layers";
  EXPECT_FALSE(lora.adapts("head.q_proj")) << "of no layer";
  EXPECT_TRUE(lora.adapts("q_proj")) << "a whole name";
  lora.layer_patterns = {"block"};
  EXPECT_FALSE(lora.adapts("model.layers.2.self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("encoder.block.2.layer.0.q_proj"));
  EXPECT_FALSE(lora.adapts("encoder.block.1.layer.2.q_proj")) << "the first number counts";
  lora.targets = ModuleNames::matching(pattern(".*q_proj"));
  EXPECT_TRUE(lora.adapts("model.layers.1.self_attn.q_proj"))
      << "layers are of targets given by name";
}

TEST(Lora, TheFirstPatternThatFitsGivesRankAndAlpha) {
  Lora lora;
  lora.rank = 8;
  lora.alpha = 16;
  lora.ranks = {{pattern_of_end("q_proj"), 4}, {pattern_of_end(".*_proj"), 2}};
  lora.alphas = {{pattern_of_end("^model.layers.0.self_attn.q_proj"), 32}};
  EXPECT_EQ(lora.rank_of("model.layers.0.self_attn.q_proj"), 4);
  EXPECT_EQ(lora.scale_of("model.layers.0.self_attn.q_proj"), 8);
  EXPECT_EQ(lora.scale_of("model.layers.1.self_attn.q_proj"), 4);
  EXPECT_EQ(lora.rank_of("model.layers.1.self_attn.v_proj"), 2);
  EXPECT_EQ(lora.rank_of("transformer.h.0.attn.c_attn"), 8);
  EXPECT_EQ(lora.scale_of("transformer.h.0.attn.c_attn"), 2);
  lora.rank_stabilised = true;
  EXPECT_EQ(lora.scale_of("transformer.h.0.attn.c_attn"), 16 / std::sqrt(8.0));
}

}  // namespace
}  // namespace megalith::adapters
