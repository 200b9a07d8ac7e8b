// SPDX-License-Identifier: Apache-2.0
#include "peft/lora_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "families/families.h"
#include "families/hugging_face.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

models::ModelSpec spec_of(std::string_view family) {
  return models::family_named(family, "test")
      .make({.layers = 2,
             .hidden = 32,
             .heads = 4,
             .kv_heads = 2,
             .ffn = 48,
             .context = 16,
             .vocab = 100},
            "test");
}
LoraModules made(std::string_view family, std::vector<std::string> targets) {
  config::TuneSection tune;
  tune.rank = 3;
  tune.alpha = 6;
  tune.targets = std::move(targets);
  return lora_modules(tune, spec_of(family), 1);
}

TEST(LoraModules, AreThePartsOfOurProducts) {
  const LoraModules lora = made("llama", {"q_proj", "v_proj", "down_proj"});
  ASSERT_EQ(lora.of.modules.size(), 6u);
  EXPECT_EQ(lora.of.modules[0].name, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(lora.of.modules[0].weight, "layers.0.attention.qkv.weight");
  EXPECT_EQ(lora.first[1], 3);
  EXPECT_EQ(lora.of.modules[1].outputs, 16);
  EXPECT_EQ(lora.products.scale, 2);
  EXPECT_THAT(lora.of.targets, ElementsAre("q_proj", "v_proj", "down_proj"));
  EXPECT_FALSE(lora.of.fan_in_fan_out);
  EXPECT_EQ(lora.parameters, 2 * 3 * ((32 + 32) + (32 + 16) + (48 + 32)));
  // Of two key/value heads of 8: queries of a group, its key, its value.
  const auto& qkv = lora.products.products.at("layers.0.attention.qkv.weight");
  EXPECT_EQ(qkv.rank, 6);
  ASSERT_EQ(qkv.by_output.size(), 64u);
  for (size_t o = 0; o < 64; ++o) {
    const Range own = qkv.by_output[o];
    const bool is_key = o % 32 >= 16 && o % 32 < 24;
    EXPECT_EQ(own.size(), is_key ? 0 : 3) << o;
    if (!is_key) {
      EXPECT_EQ(own.begin, o % 32 < 16 ? 0 : 3) << o;
    }
  }
  EXPECT_EQ(lora.products.products.count("layers.0.mlp.gate_up.weight"), 0u);
  EXPECT_FALSE(lora.products.has_magnitudes);
}

TEST(LoraModules, CountMagnitudes) {
  config::TuneSection tune;
  tune.rank = 3;
  tune.targets = {"v_proj", "down_proj"};
  tune.magnitudes = true;
  const LoraModules lora = lora_modules(tune, spec_of("llama"), 1);
  EXPECT_TRUE(lora.products.has_magnitudes);
  EXPECT_EQ(lora.parameters, 2 * (3 * ((32 + 16) + (48 + 32)) + 16 + 32));
}

TEST(LoraModules, WithoutTargetsAreAllProductsOfTheLayers) {
  EXPECT_THAT(made("llama", {}).of.targets, ElementsAre("down_proj", "gate_proj", "k_proj",
                                                        "o_proj", "q_proj", "up_proj", "v_proj"));
  EXPECT_EQ(made("llama", {}).of.modules.size(), 14u);
  const LoraModules gpt2 = made("gpt2", {"attn.c_proj"});
  EXPECT_TRUE(gpt2.of.fan_in_fan_out);
  ASSERT_EQ(gpt2.of.modules.size(), 2u);
  EXPECT_EQ(gpt2.of.modules[0].name, "transformer.h.0.attn.c_proj");
}

TEST(LoraModules, OfT5AreOfBothStacksAndBetweenThem) {
  const LoraModules lora = made("t5", {});
  EXPECT_THAT(lora.of.targets, ElementsAre("k", "o", "q", "v", "wi", "wo"));
  EXPECT_EQ(lora.of.modules.size(), 2u * 6 + 2 * 10);
  EXPECT_EQ(lora.of.task, "SEQ_2_SEQ_LM");
  const LoraModules cross = made("t5", {"EncDecAttention.v"});
  ASSERT_EQ(cross.of.modules.size(), 2u);
  EXPECT_EQ(cross.of.modules[0].name, "decoder.block.0.layer.1.EncDecAttention.v");
  // A key of 8, then its value, head by head.
  const auto& kv = cross.products.products.at("layers.0.cross.kv.weight");
  for (size_t o = 0; o < kv.by_output.size(); ++o)
    EXPECT_EQ(kv.by_output[o].size(), o % 16 < 8 ? 0 : 3) << o;
  EXPECT_EQ(made("mt5", {"wi_1"}).of.modules.size(), 4u);
}

TEST(LoraModules, ClassifiersHaveTheirTaskAndTheirHead) {
  using layers::HeadKind;
  const struct {
    HeadKind kind;
    const char* task;
    size_t dense;  // tensors before the outputs
  } kinds[] = {{HeadKind::sequence_classification, "SEQ_CLS", 2},
               {HeadKind::token_classification, "TOKEN_CLS", 0},
               {HeadKind::question_answering, "QUESTION_ANS", 0}};
  const models::Family& bert = models::family_named("bert", "test");
  for (const auto& [kind, task, dense] : kinds) {
    const auto found = std::ranges::find(bert.others, kind, &models::HeadClass::head);
    ASSERT_TRUE(found != bert.others.end()) << task;
    auto config =
        nlohmann::ordered_json::parse(models::hugging_face_config(spec_of("bert"), DType::f32, {}));
    config["architectures"] = {found->name};
    if (kind == HeadKind::sequence_classification)
      config["problem_type"] = "single_label_classification";
    if (kind != HeadKind::question_answering) config["id2label"] = {{"0", "no"}, {"1", "yes"}};
    const models::ModelSpec spec = models::parse_hugging_face_config(config.dump(), "test").model;
    EXPECT_EQ(spec.head.kind, kind);
    config::TuneSection tune;
    tune.targets = {"query"};
    const LoraModules lora = lora_modules(tune, spec, 1);
    EXPECT_EQ(lora.of.task, task);
    EXPECT_EQ(lora.of.head.tensors.size(), dense + 2) << task;
    EXPECT_THAT(lora.of.head.config, HasSubstr(found->name));
  }
  EXPECT_TRUE(made("llama", {}).of.head.tensors.empty());
}

TEST(LoraModules, ATargetThatIsNoneIsNamed) {
  try {
    made("llama", {"q_proj", "query"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is called \"query\"; there are down_proj, gate_proj"));
  }
}

}  // namespace
}  // namespace megalith::tune
