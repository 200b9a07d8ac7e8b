// SPDX-License-Identifier: Apache-2.0
#include "models/recipe_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "families/families.h"
#include "families/hugging_face.h"

namespace megalith::models {
namespace {

using ::testing::HasSubstr;

config::Recipe recipe(const std::string& model, const config::CompleteModel& complete = complete) {
  return config::parse_recipe("{model: {" + model + "}, train: {steps: 1}}", "r.yaml",
                              std::span<const std::string>(), complete);
}

TEST(RecipeModel, AFamilyGivesTheDefaults) {
  EXPECT_EQ(model_of(recipe("vocab: 300"), 0), gpt2({.vocab = 300}));
  EXPECT_EQ(model_of(recipe("family: llama, vocab: 300, hidden: 64, heads: 4, kv_heads: 2"), 0),
            llama({.hidden = 64, .heads = 4, .kv_heads = 2, .vocab = 300}));
  EXPECT_EQ(recipe("family: llama, vocab: 300, hidden: 64, heads: 4").model.ffn, 256);
}

TEST(RecipeModel, EveryKeyCanBeGiven) {
  const ModelSpec model = model_of(
      recipe("family: llama, vocab: 300, hidden: 64, heads: 4, head_dim: 24, tied: true, "
             "mlp: plain, activation: relu, bias: true, norm: layer, norm_place: both, window: 9, "
             "rope: {base: 500, dim: 8, scaling: linear, factor: 4}"),
      0);
  const layers::LayerSpec& layer = model.layers[0];
  EXPECT_TRUE(model.head.tied);
  EXPECT_EQ(layer.attention.head_dim, 24);
  EXPECT_FALSE(layer.mlp.gated);
  EXPECT_EQ(layer.mlp.activation, layers::Activation::relu);
  EXPECT_TRUE(layer.mlp.bias && layer.attention.qkv_bias && layer.norm.bias);
  EXPECT_EQ(layer.norm.kind, layers::NormKind::layer);
  EXPECT_EQ(layer.norm_place, layers::NormPlace::both);
  EXPECT_EQ(layer.attention.window, 9);
  EXPECT_EQ(layer.attention.rope.base, 500);
  EXPECT_EQ(layer.attention.rope.dim, 8);
  EXPECT_EQ(layer.attention.rope.scaling, layers::RopeScaling::linear);
  EXPECT_EQ(layer.attention.rope.factor, 4);
  const ModelSpec none = model_of(recipe("family: llama, vocab: 9, position: none"), 0);
  EXPECT_EQ(none.layers[0].attention.rope.dim, 0);
  const ModelSpec learned = model_of(recipe("family: llama, vocab: 9, position: learned"), 0);
  EXPECT_EQ(learned.layers[0].attention.rope.dim, 0);
  EXPECT_EQ(learned.embedding.position, layers::PositionKind::learned);
}

TEST(RecipeModel, ACompleteRecipeIsTheSameModelAndStaysAsItIs) {
  for (const char* text : {"vocab: 300", "family: llama, vocab: 300",
                           "family: llama, vocab: 300, position: none, bias: true",
                           "family: qwen3, vocab: 300, position: learned"}) {
    const config::Recipe whole = recipe(text);
    config::Recipe again = whole;
    complete(again.model);
    EXPECT_TRUE(config::differences(whole, again).empty()) << text;
    EXPECT_EQ(config::to_yaml(whole).find("family,"), std::string::npos);
    const config::Recipe back = config::parse_recipe(config::to_yaml(whole), "w.yaml");
    EXPECT_EQ(model_of(back, 0), model_of(whole, 0)) << text;
  }
}

TEST(RecipeModel, EveryFamilyIsWhatItMakes) {
  for (const Family* family : families()) {
    const config::Recipe whole = recipe(
        fmt::format("family: {}, vocab: 300, layers: 7, hidden: 48, heads: 4", family->name));
    ModelSpec expected = family->make({.layers = 7, .hidden = 48, .heads = 4, .vocab = 300}, "t");
    expected.init_std = 0.02;  // the recipe's
    EXPECT_EQ(model_of(whole, 0), expected) << family->name;
    const config::Recipe back = config::parse_recipe(config::to_yaml(whole), "w.yaml");
    EXPECT_EQ(model_of(back, 0), expected) << family->name;
  }
}

TEST(RecipeModel, AHeadsTransformHasTheActivationThatItsClassGivesIt) {
  using layers::Activation;
  for (const auto& [family, expected] :
       {std::pair("bert", Activation::relu), std::pair("albert", Activation::relu),
        std::pair("roberta", Activation::gelu_erf)}) {
    const ModelSpec model =
        model_of(recipe(fmt::format("family: {}, vocab: 300, activation: relu", family)), 0);
    EXPECT_EQ(model.layers[0].mlp.activation, Activation::relu) << family;
    EXPECT_EQ(model.head.transform->activation, expected) << family;
    EXPECT_NO_THROW(check_expressible(model)) << family;
  }
}

// Layers of an encoder and of a decoder differ, but not in this.
TEST(RecipeModel, WhatAllLayersHaveIsCompletedInBothStacks) {
  const config::Recipe whole = recipe("family: t5, vocab: 300");
  EXPECT_EQ(whole.model.window, 0);
  EXPECT_TRUE(config::differences(whole, recipe("family: t5, vocab: 300, window: 0")).empty());
  EXPECT_EQ(recipe("family: gemma2, vocab: 300").model.window, -1);
}

// What a recipe says of windows and angles is of the layers that have them.
TEST(RecipeModel, LayersThatDifferKeepTheirDifference) {
  const auto layers_of = [](const std::string& model) {
    return model_of(recipe("vocab: 300, layers: 7, hidden: 48, heads: 4, " + model), 0).layers;
  };
  const auto gemma2 = layers_of("family: gemma2, window: 9, rope: {base: 500}");
  EXPECT_EQ(gemma2[0].attention.window, 9);
  EXPECT_EQ(gemma2[1].attention.window, 0);
  EXPECT_EQ(gemma2[0].attention.rope.base, 500);
  EXPECT_EQ(gemma2[1].attention.rope.base, 500);
  const auto gemma3 = layers_of("family: gemma3_text, window: 9, rope: {base: 500, dim: 8}");
  EXPECT_EQ(gemma3[4].attention.window, 9);
  EXPECT_EQ(gemma3[4].attention.rope.base, 1e4);
  EXPECT_EQ(gemma3[4].attention.rope.dim, 8);
  EXPECT_EQ(gemma3[5].attention.window, 0);
  EXPECT_EQ(gemma3[5].attention.rope.base, 500);
  for (const layers::LayerSpec& layer : layers_of("family: gemma3_text, window: 0")) {
    EXPECT_EQ(layer.attention.window, 0);
    EXPECT_EQ(layer.attention.rope.base, 1e6);
  }
  EXPECT_EQ(layers_of("family: llama, window: 9")[6].attention.window, 9);
  EXPECT_EQ(layers_of("family: gpt_neox")[0].attention.rope.dim, 2);  // of twelve
  const layers::AttentionSpec qwen = layers_of("family: qwen2")[0].attention;
  EXPECT_TRUE(qwen.qkv_bias && !qwen.output_bias);
}

// Whose digests config/compare_test.cpp has.
TEST(RecipeModel, AFingerprintIsThatFromBeforeFamilies) {
  config::Recipe r;
  r.model.hidden = 384;
  r.model.vocab = 50257;
  r.optimizer.groups = {{"*.bias", 2, 0.0}};
  EXPECT_EQ(fingerprint_of(r), config::fingerprint(r));
}

TEST(RecipeModel, WhatIsUnknownOrImpossibleIsNamed) {
  const auto refuses = [](const std::string& model, const char* what) {
    try {
      model_of(recipe(model), 0);
      ADD_FAILURE() << model << " was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  refuses("family: lama, vocab: 3", "llama");
  refuses("vocab: 300, heads: 5", "model.heads");
  refuses("vocab: 300, mlp: swiglu", "model.mlp");
  refuses("family: llama, vocab: 300, rope: {dim: 70}", "rotary");
  refuses("vocab: 300, rope: {base: 500}",
          "model.rope.base has no effect with model.position: learned");
  refuses("family: llama, vocab: 300, position: none, rope: {factor: 2}", "model.rope.factor");
  refuses("family: t5, vocab: 300, rope: {scaling: linear}", "model.position: relative");
  EXPECT_THROW(model_of(recipe("vocab: 300"), 301), UserError);
}

}  // namespace
}  // namespace megalith::models
