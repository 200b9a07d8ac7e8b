// SPDX-License-Identifier: Apache-2.0
#include "families/model_spec_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "families/families.h"

namespace megalith::models {
namespace {

std::string difference(const ModelSpec& wanted, const ModelSpec& stored) {
  try {
    require_same_weights(wanted, stored, "train.init x");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SameWeights, AQuestionAboutPairsMayStandBesideTheLanguageModelsHead) {
  const ModelSpec wanted =
      kBert.make({.layers = 3, .hidden = 64, .heads = 4, .context = 32, .vocab = 99}, "test");
  ModelSpec stored = wanted;
  stored.head.kind = layers::HeadKind::pretraining;
  EXPECT_EQ(difference(wanted, stored), "");
  EXPECT_THAT(difference(stored, wanted), testing::HasSubstr("a model with a head for language_"));
  stored.head.tied = false;
  EXPECT_THAT(difference(wanted, stored), testing::HasSubstr("(head.tied is false there"));
  stored = wanted;
  stored.head.kind = layers::HeadKind::token_classification;
  EXPECT_THAT(difference(wanted, stored), testing::HasSubstr("a model with a head for token_"));
}

TEST(SameWeights, TheFieldsThatDifferAreNamedWithBothValues) {
  const Sizes sizes{.layers = 3, .hidden = 64, .heads = 4, .context = 32, .vocab = 99};
  const ModelSpec wanted = llama(sizes);
  ModelSpec stored = wanted;
  stored.dropout = 0.5;
  EXPECT_EQ(difference(wanted, stored), "");
  for (layers::LayerSpec& layer : stored.layers) layer.attention.kv_heads = 2;
  EXPECT_EQ(difference(wanted, stored),
            "train.init x: another model (layers.0.attention.kv_heads is 2 there and 4 in the "
            "recipe)");
  // A name that another one ends with.
  stored = wanted;
  stored.head.scale = 2;
  for (layers::LayerSpec& layer : stored.layers) layer.attention.scale = 0.5;
  EXPECT_THAT(difference(wanted, stored),
              testing::AllOf(testing::HasSubstr("(head.scale is 2.0 there and 1.0 in the recipe"),
                             testing::HasSubstr("; layers.0.attention.scale is 0.5 there and ")));
  stored = wanted;
  stored.set_num_layers(2);
  stored.layers[1].mlp.ffn = 8;
  EXPECT_THAT(difference(wanted, stored),
              testing::AllOf(testing::HasSubstr("layers is 2 there and 3 in the recipe"),
                             testing::HasSubstr("layers.1.mlp.ffn is 8 there and ")));
}

}  // namespace
}  // namespace megalith::models
