// SPDX-License-Identifier: Apache-2.0
// megalith train: a model as a recipe describes it, trained on packed corpora.
#include <memory>

#include "apps/recipe_options.h"
#include "apps/sample_writer.h"
#include "apps/training/initial_weights.h"
#include "apps/training/training.h"
#include "config/resume.h"
#include "engine/from_recipe.h"
#include "train/run_inputs.h"
#include "train/stop_request.h"

namespace megalith::apps {
namespace {

int run(const RecipeOptions& options, const TrainingOptions& extra, bool json) {
  const train::StopRequest stop;  // first: a signal during the start is a wish too
  config::check_allow(extra.allow);
  config::Recipe recipe = options.load();
  if (recipe.tunes())
    throw UserError("{}: tune.model names a model to tune; megalith tune does that", options.path);
  const std::optional<Launch> launch = settle_ranks(recipe, extra.ranks);
  if (recipe.data.train.empty())
    throw UserError("{}: data.train names no corpus; set it to a prefix", options.path);
  const auto tokenizer = tokenizer_of(recipe);
  check_samples(recipe, tokenizer, recipe.model.context, options.path);
  const text::Tokenizer* const own = tokenizer ? &*tokenizer : nullptr;
  const Training training{
      .recipe = recipe,
      .tokenizer = own,
      .settings =
          [&](const config::Recipe& candidate) {
            return engine::settings_of(candidate, own != nullptr ? own->vocab_size() : 0);
          },
      .training_samples =
          [&](const engine::Settings& settings) {
            return train::training_source(recipe, settings, own);
          },
      .validation_samples =
          [&](const engine::Settings& settings) {
            return train::validation_source(recipe, settings, own);
          },
      .begin = [&](const RankPlace& place,
                   train::RunInputs& inputs) -> std::shared_ptr<const void> {
        auto initial = std::make_shared<const std::optional<store::ModelSource>>(
            initial_weights(place.world, recipe, inputs.settings));
        if (*initial) begin_with(**initial, inputs);
        return initial;
      }};
  (void)training.settings(recipe);
  if (extra.restart) check_restart(recipe, "train.init", recipe.train.init, options.path);
  return run_training(training, launch, stop, extra, json);
}

}  // namespace

void add_train(CLI::App& app, Invocation& invocation) {
  add_training_command(
      app, invocation, "train", "train a model as a recipe says; resumes by itself",
      "  megalith train recipes/demo.yaml\n"
      "  megalith train recipes/demo.yaml --set run.out=runs/b --set optimizer.lr=1e-3\n"
      "  megalith train recipes/demo.yaml --set parallel.tensor=2 --set parallel.pipeline=2\n",
      run);
}

}  // namespace megalith::apps
