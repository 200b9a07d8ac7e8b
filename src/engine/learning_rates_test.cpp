// SPDX-License-Identifier: Apache-2.0
// Learning rates of a depth and of a group: what a recipe's layer_decay makes of a model, that each
// parameter moves by its own rate, that a factor of one is none.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <map>

#include "comm/backends.h"
#include "engine/from_recipe.h"
#include "models/recipe_model.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::SerialRun;
using megalith::testing::toy_settings;
using ::testing::AllOf;
using ::testing::HasSubstr;

config::Recipe small_recipe(const std::string& family) {
  config::Recipe recipe;
  recipe.model.family = family;
  recipe.model.layers = 3;
  recipe.model.hidden = 16;
  recipe.model.heads = 2;
  recipe.model.context = 64;
  recipe.model.vocab = 100;
  recipe.train.steps = 1;
  models::complete(recipe.model);
  config::resolve(recipe);
  if (family == "bert") recipe.train.objective = config::Objective::masked;
  return recipe;
}

std::string fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

/// The factor of every parameter of the model, by name.
std::map<std::string, double> scales_of(const Settings& settings) {
  parameters::ParameterSet set;
  const models::Decoder declarations(settings.model, set, models::Stage::whole(settings.model),
                                     undivided(settings));
  std::map<std::string, double> scales;
  for (const parameters::Parameter& parameter : set.all())
    scales[parameter.name()] = optim::lr_scale_of(settings.adamw, parameter.name());
  return scales;
}

TEST(LayerDecay, FallsFromTheHeadToTheEmbeddings) {
  for (const char* const family : {"bert", "gpt2"}) {
    config::Recipe recipe = small_recipe(family);
    recipe.optimizer.layer_decay = 0.5;
    const auto scales = scales_of(settings_of(recipe, 0));
    ASSERT_GT(scales.size(), 20u);
    for (const auto& [name, scale] : scales) {
      const bool is_below = name.starts_with("embedding.") || name.starts_with("position.") ||
                            name.starts_with("token_type.");
      const double expected = is_below                        ? 0.5 * 0.125
                              : name.starts_with("layers.0.") ? 0.125
                              : name.starts_with("layers.1.") ? 0.25
                              : name.starts_with("layers.2.") ? 0.5
                                                              : 1;
      EXPECT_EQ(scale, expected) << family << ": " << name;
    }
  }
}

TEST(LayerDecay, OfOneIsNone) {
  EXPECT_TRUE(settings_of(small_recipe("gpt2"), 0).adamw.depths.empty());
  const SerialRun run(toy_settings(), 3);
  Settings ones = toy_settings();
  ones.adamw.depths = {{"layers.", 1}, {"embedding.", 1}};
  ones.adamw.groups = {{"*.bias", 1, {}}, {"*", 1, {}}};
  EXPECT_EQ(run.difference(ones), "");
  ones.adamw.depths[0].lr_scale = 0.5;
  EXPECT_NE(run.difference(ones), "");
}

TEST(LayerDecay, NeedsLayersOfTheirOwnWeights) {
  const auto fault = [](const std::string& family) {
    config::Recipe recipe = small_recipe(family);
    recipe.train.objective = family == "t5" ? config::Objective::spans : config::Objective::masked;
    recipe.optimizer.layer_decay = 0.9;
    return fault_of([&] { settings_of(recipe, 0); });
  };
  for (const char* const family : {"albert", "t5"})
    EXPECT_THAT(fault(family), AllOf(HasSubstr("optimizer.layer_decay"), HasSubstr(family)));
}

/// What a rank alone has after a step, without clipping, which couples all.
std::map<std::string, std::vector<float>> weights_after(Settings settings, int64_t steps) {
  settings.clip = std::numeric_limits<double>::infinity();
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  Engine engine(settings, *device, mesh);
  engine.initialise();
  for (int64_t step = 1; step <= steps; ++step)
    engine.step(step, 0.01, testing::toy_micro_batches(settings, step, 0),
                testing::toy_weight(settings, step));
  std::map<std::string, std::vector<float>> all;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto* values = parameter.compute().view.as<float>();
    all[parameter.name()].assign(values, values + parameter.local_elements());
  }
  return all;
}

TEST(LearningRates, AreOfTheirOwnParametersAlone) {
  const Settings settings = toy_settings();
  const auto drawn = weights_after(settings, 0), all = weights_after(settings, 1);
  Settings some = settings;
  some.adamw.depths = {{"layers.1.", 0}};
  some.adamw.groups = {{"*norm*", 0, {}}};
  for (const auto& [name, values] : weights_after(some, 1)) {
    const bool stays = name.starts_with("layers.1.") || name.find("norm") != std::string::npos;
    EXPECT_EQ(values, stays ? drawn.at(name) : all.at(name)) << name;
    EXPECT_NE(drawn.at(name), all.at(name)) << name;
  }
}

TEST(LearningRates, GroupsOfNothingAreRefused) {
  const auto fault = [](std::vector<optim::ParameterGroup> groups) {
    Settings settings = toy_settings();
    settings.frozen = {"embedding.*"};
    settings.adamw.groups = std::move(groups);
    return fault_of([&] { check(settings, "recipe"); });
  };
  EXPECT_EQ(fault({{"*.bias", 1, 0.0}, {"layers.*", 2, {}}}), "");
  EXPECT_THAT(fault({{"*.bias", 1, 0.0}, {"layer.0.*", 2, {}}}),
              HasSubstr("no parameter that trains is called \"layer.0.*\""));
  EXPECT_THAT(fault({{"embedding.*", 2, {}}}), HasSubstr("called \"embedding.*\""));
  EXPECT_THAT(fault({{"layers.*", 2, {}}, {"layers.1.*", 1, {}}}),
              HasSubstr("all that \"layers.1.*\" matches is in groups before it"));
}

}  // namespace
}  // namespace megalith::engine
