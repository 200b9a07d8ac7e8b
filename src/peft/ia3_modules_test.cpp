// SPDX-License-Identifier: Apache-2.0
#include "peft/ia3_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "families/families.h"

namespace megalith::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

models::ModelSpec spec_of(std::string_view family) {
  return models::family_named(family, "test")
      .make({.layers = 2, .hidden = 32, .heads = 4, .ffn = 48, .context = 16, .vocab = 100},
            "test");
}
Ia3Modules made(std::string_view family, std::vector<std::string> targets = {}) {
  config::TuneSection tune;
  tune.targets = std::move(targets);
  return ia3_modules(tune, spec_of(family), 1);
}
std::string fault(std::string_view family, std::vector<std::string> targets) {
  try {
    made(family, std::move(targets));
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(Ia3Modules, OfLlamaAreKeysValuesAndWhatEndsTheMlp) {
  const Ia3Modules ia3 = made("llama");
  EXPECT_THAT(ia3.of.targets, ElementsAre("k_proj", "v_proj", "down_proj"));
  EXPECT_THAT(ia3.feedforward, ElementsAre("down_proj"));
  ASSERT_EQ(ia3.of.modules.size(), 6u);
  EXPECT_EQ(ia3.parameters, 2 * (32 + 32 + 48));
  // Of four key/value heads of 8: queries of a group, its key, its value.
  const auto& qkv = ia3.products.at("layers.0.attention.qkv.weight");
  EXPECT_FALSE(qkv.of_inputs);
  ASSERT_EQ(qkv.outputs.size(), 96u);
  for (size_t o = 0; o < 96; ++o) EXPECT_EQ(qkv.outputs[o], o % 24 >= 8) << o;
  EXPECT_TRUE(ia3.products.at("layers.1.mlp.down.weight").of_inputs);
  EXPECT_EQ(ia3.products.count("layers.0.mlp.gate_up.weight"), 0u);
}

TEST(Ia3Modules, OfTwoThatAreOneProductEachHasItsTurn) {
  const Ia3Modules ia3 = made("llama", {"up_proj", "o_proj"});
  EXPECT_THAT(ia3.feedforward, ElementsAre("o_proj"));
  const std::vector<bool>& outputs = ia3.products.at("layers.0.mlp.gate_up.weight").outputs;
  ASSERT_EQ(outputs.size(), 96u);
  for (size_t o = 0; o < outputs.size(); ++o) EXPECT_EQ(outputs[o], o % 2 == 1) << o;
  EXPECT_TRUE(ia3.products.at("layers.0.attention.output.weight").of_inputs);
}

TEST(Ia3Modules, EveryFamilyHasADefault) {
  int families = 0;
  for (const models::Family* const family : models::families()) {
    if (family->name == "crammed") continue;
    const Ia3Modules ia3 = made(family->name);
    EXPECT_EQ(ia3.feedforward.size(), family->name == "mt5" ? 0u : 1u) << family->name;
    EXPECT_GE(ia3.products.size(), family->name == "albert" ? 2u : 4u) << family->name;
    ++families;
  }
  EXPECT_EQ(families, 18);
  EXPECT_TRUE(made("gpt2").of.fan_in_fan_out);
  EXPECT_THAT(fault("crammed", {}), HasSubstr("for model.family crammed there is no default"));
}

/// In both stacks, and in what the decoder makes of the encoder's rows.
TEST(Ia3Modules, OfT5AreKeysValuesAndWhatEndsTheMlp) {
  const Ia3Modules ia3 = made("t5");
  EXPECT_THAT(ia3.of.targets, ElementsAre("k", "v", "wo"));
  EXPECT_THAT(ia3.feedforward, ElementsAre("wo"));
  ASSERT_EQ(ia3.of.modules.size(), 2u * 3 + 2 * 5);
  EXPECT_EQ(ia3.of.task, "SEQ_2_SEQ_LM");
  // Key and value in turn, head by head; of queries there are none.
  const std::vector<bool>& cross = ia3.products.at("layers.0.cross.kv.weight").outputs;
  EXPECT_EQ(cross, std::vector<bool>(cross.size(), true));
  EXPECT_EQ(ia3.products.count("layers.0.cross.q.weight"), 0u);
  EXPECT_TRUE(ia3.products.at("encoder.layers.1.mlp.down.weight").of_inputs);
}

TEST(Ia3Modules, ATargetOfBothSidesIsNamed) {
  EXPECT_THAT(fault("bert", {"dense"}), AllOf(HasSubstr("\"dense\" stands for bert.encoder.layer."),
                                              HasSubstr("write more of their names")));
  EXPECT_THAT(fault("llama", {"k_proj", "keys"}), HasSubstr("is called \"keys\"; there are"));
}

}  // namespace
}  // namespace megalith::tune
