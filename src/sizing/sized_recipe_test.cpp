// SPDX-License-Identifier: Apache-2.0
#include "sizing/sized_recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/from_recipe.h"
#include "models/recipe_model.h"

namespace megalith::sizing {
namespace {

using ::testing::HasSubstr;

const RecipeOptions kOptions{.gpus = 1024, .tokens = 300e9, .global_batch = 2048, .lr = 6e-5};

/// The 175B of NeMo's configurations: 8 x 8 ranks a model, 16 of them.
TEST(SizedRecipe, OfNemosShape) {
  const Task task{.recompute = layers::Recompute::selective};
  const NemoShape shape = nemo_shape(175, 51200, 2048, NemoFamily::gpt);
  const config::Recipe recipe = nemo_recipe(shape, nemo_base(175, 2048, 80, NemoFamily::gpt),
                                            NemoFamily::gpt, task, kOptions);
  EXPECT_EQ(recipe.model.hidden, 12288);
  EXPECT_EQ(recipe.parallel.data, 16);
  EXPECT_EQ(recipe.train.tokens, 300'000'000'000);
  EXPECT_EQ(recipe.train.global_batch, 2048);
  EXPECT_EQ(recipe.optimizer.warmup_steps, 107);  // 0.15 % of 71,526 steps
  EXPECT_EQ(recipe.parallel.zero, 1);
  EXPECT_EQ(engine::settings_of(recipe, 0).layout.num_ranks(), 1024);
  const config::Recipe again = config::parse_recipe(
      config::to_yaml(recipe), "again", std::span<const std::string>(), models::complete);
  EXPECT_TRUE(config::differences(recipe, again).empty());
}

TEST(SizedRecipe, OfEveryFamilyOfNemo) {
  for (const auto& [name, family] :
       {std::pair{"bert", NemoFamily::bert}, {"t5", NemoFamily::t5}, {"mt5", NemoFamily::mt5}}) {
    const Task task{.family = name, .vocab = 32128, .sequence = 512};
    const NemoShape shape = nemo_shape(3, task.vocab, 512, family);
    const config::Recipe recipe =
        nemo_recipe(shape, nemo_base(3, 512, 80, family), family, task, kOptions);
    const engine::Settings settings = engine::settings_of(recipe, 0);
    EXPECT_EQ(settings.model.layer(0).attention.heads, shape.heads);
    EXPECT_EQ(settings.model.layer(0).mlp.ffn, shape.ffn) << name;
    EXPECT_NEAR(static_cast<double>(settings.model.num_parameters()), 3e9, 0.1 * 3e9) << name;
  }
}

TEST(SizedRecipe, TheFirstLayoutThatFits) {
  const SizedModel model = size_of({}, {40, 5120, 40});
  std::vector<std::pair<int64_t, int64_t>> tried;
  const auto planned = [&](const config::Recipe& r) {
    tried.emplace_back(r.parallel.tensor, r.parallel.pipeline);
    return int64_t{1'000'000'000'000} / (r.parallel.tensor * r.parallel.pipeline);
  };
  const config::Recipe recipe =
      fitting_recipe({}, model, kOptions, int64_t{250'000'000'000}, planned);
  EXPECT_EQ(recipe.parallel.tensor, 4);
  EXPECT_EQ(recipe.parallel.pipeline, 1);
  EXPECT_EQ(recipe.parallel.data, 256);
  EXPECT_THAT(tried, ::testing::ElementsAre(std::pair(1, 1), std::pair(2, 1), std::pair(1, 2),
                                            std::pair(4, 1)));
  try {
    tried.clear();
    fitting_recipe({}, model, kOptions, 2'000'000'000, planned);
    FAIL();
  } catch (const UserError& error) {
    // 64 ranks of a model are the most of 40 layers among 1024 GPUs.
    EXPECT_THAT(
        error.what(),
        HasSubstr("under 2000000000 bytes a GPU; that with most ranks a model takes 15625000000"));
    EXPECT_THAT(tried, ::testing::ElementsAre(std::pair(8, 8)));  // the others' state is above
  }
}

TEST(SizedRecipe, GpusThatDoNotDivideAreNamed) {
  const SizedModel model = size_of({}, {40, 5120, 40});
  RecipeOptions odd = kOptions;
  odd.gpus = 100;
  try {
    sized_recipe({}, model, odd, 8, 1);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--gpus 100 is no multiple of 8 tensor x 1 pipeline"));
  }
  // A batch that the data ranks do not divide grows to one that they do.
  odd.gpus = 160;
  EXPECT_EQ(sized_recipe({}, model, odd, 1, 1).train.global_batch, 2080);
}

TEST(SizedRecipe, UsualBatchesAndRates) {
  EXPECT_EQ(usual_batch(125'000'000, 2048), 256);
  EXPECT_EQ(usual_batch(2'700'000'000, 2048), 512);
  EXPECT_EQ(usual_batch(13'000'000'000, 2048), 1024);
  EXPECT_EQ(usual_batch(175'000'000'000, 2048), 2048);
  EXPECT_DOUBLE_EQ(usual_learning_rate(125'000'000), 6e-4);
  EXPECT_DOUBLE_EQ(usual_learning_rate(6'700'000'000), 1.2e-4);
  EXPECT_DOUBLE_EQ(usual_learning_rate(1'000'000'000'000), 0.6e-4);
  EXPECT_LT(usual_learning_rate(1'000'000'000), 2.5e-4);
  EXPECT_GT(usual_learning_rate(1'000'000'000), 2e-4);
}

}  // namespace
}  // namespace megalith::sizing
